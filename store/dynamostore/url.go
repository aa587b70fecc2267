package dynamostore

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/soloist-dev/soloist/store"
)

const urlRule = "write dynamodb://TABLE?region=eu-central-1"

// OpenURL returns a store by a URL:
//
//	dynamodb://TABLE?region=eu-central-1
//
// Options are region, profile (of the files of the AWS command line), and endpoint (http://127.0.0.1:8000, for an emulator).
// Credentials come from where the AWS SDK looks for them: the environment, the files, or the machine; never from the URL.
// It sends no request to the table. The SDK logs nothing.
func OpenURL(ctx context.Context, rawURL string) (*Store, error) {
	table, options, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}), // "" is no option
		config.WithRegion(options["region"]), config.WithSharedConfigProfile(options["profile"]))
	if err != nil {
		return nil, wrap("reading the configuration of AWS", err)
	}
	if cfg.Region == "" {
		return nil, &store.InvalidError{What: "URL", Value: "of the store", Rule: "names no region, and nor does the environment: " + urlRule}
	}
	cfg.Credentials = explained{cfg.Credentials}
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if endpoint := options["endpoint"]; endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	return New(client, Config{Table: table})
}

// explained are credentials with an error that says where they can come from, if there are none, or if those that expire could not be renewed.
type explained struct{ aws.CredentialsProvider }

func (e explained) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := e.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		err = fmt.Errorf("the AWS SDK has no valid credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the option profile, or give the machine a role: %w", err)
	}
	return c, err
}

// parseURL takes a URL apart. Its errors quote nothing that may be secret.
func parseURL(rawURL string) (table string, options map[string]string, err error) {
	invalid := func(value, rule string) (string, map[string]string, error) {
		return "", nil, &store.InvalidError{What: "URL", Value: value, Rule: rule}
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Scheme != "dynamodb" || u.Opaque != "":
		return invalid("of the store", urlRule)
	case u.User != nil:
		return invalid("of the store", "has a user or password: AWS credentials come from the environment, a profile, or the machine; "+urlRule)
	case u.Path != "" || u.Fragment != "":
		return invalid("of the store", "has a path or a fragment: "+urlRule)
	case u.Port() != "":
		return invalid("of the store", "has a port: write endpoint=http://HOST:PORT as an option, for an emulator")
	}
	options = map[string]string{}
	for _, pair := range strings.Split(u.RawQuery, "&") {
		if u.RawQuery == "" {
			break
		}
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		switch _, twice := options[key]; {
		case key != "region" && key != "endpoint" && key != "profile":
			return invalid("option "+strconv.Quote(key), "is unknown: the options are region, profile and endpoint")
		case twice:
			return invalid("option "+strconv.Quote(key), "is given twice")
		case err != nil || value == "" || strings.ContainsAny(value, " \t\r\n;"):
			return invalid("option "+strconv.Quote(key), "has no value, or one that cannot be: "+urlRule)
		}
		options[key] = value
	}
	if endpoint := options["endpoint"]; endpoint != "" {
		if e, err := url.Parse(endpoint); err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil {
			return invalid("option \"endpoint\"", "must be like http://127.0.0.1:8000")
		}
	}
	// A host of a URL may be in any case, and Go keeps it; the table is what stands there, letter by letter.
	if cfg, err := (Config{Table: u.Host}).filled(); err != nil || u.Host == "" {
		if err == nil {
			return invalid("of the store", "names no table: "+urlRule)
		}
		return "", nil, err
	} else {
		return cfg.Table, options, nil
	}
}
