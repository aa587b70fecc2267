//go:build unix

package histories

import (
	"testing"

	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/test/servers"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

func TestDynamoDB(t *testing.T) {
	servers.Long(t)
	t.Parallel()
	to, faults := wired(t, servers.DynamoDB(t).Endpoint)
	b := &rig{noClock: true, faults: faults, stores: handles(t, func() (*dynamostore.Store, error) {
		return dynamostore.New(dynamodb.New(dynamodb.Options{
			Region: "eu-central-1", BaseEndpoint: &to, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}), dynamostore.Config{})
	})}
	if _, err := b.stores[0].(*dynamostore.Store).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	try(t, b)
}
