package natsstore

import (
	"regexp"
	"strconv"

	"github.com/soloist-dev/soloist/store"
)

// A Config configures a store. The zero value is valid.
type Config struct {
	// Bucket is the name of the key-value bucket: 1 to 200 letters, digits, _ and -. The default is "soloist". No other program may write to it.
	Bucket string

	// Replicas is how many servers keep the bucket: 1, 3 or 5. Migrate alone uses it. The default, 0, leaves a bucket that exists as it is, and makes one with 3 replicas
	// in a cluster, and with 1 elsewhere.
	Replicas int

	// Synced says that all servers with the bucket are configured with `sync_interval: always`, so that they confirm a message only after it was written to the disk.
	// A client cannot see that setting. Without it, Capabilities reports Fencing and Durable as unknown.
	Synced bool
}

var bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

func (c Config) filled() (Config, error) {
	if c.Bucket == "" {
		c.Bucket = "soloist"
	}
	if !bucketName.MatchString(c.Bucket) {
		return c, &store.InvalidError{What: "bucket", Value: strconv.Quote(c.Bucket), Rule: "give 1 to 200 letters, digits, _ and -"}
	}
	if n := c.Replicas; n != 0 && n != 1 && n != 3 && n != 5 {
		return c, &store.InvalidError{What: "replicas", Value: strconv.Itoa(n), Rule: "give 1, 3 or 5, or 0 for as many as fit"}
	}
	return c, nil
}
