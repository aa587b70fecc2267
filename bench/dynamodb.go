package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"cirello.io/dynamolock/v2"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/dynamostore"
	"github.com/soloist-dev/soloist/test/servers"
)

func dynamoDBBackend() backend {
	open := func(ctx context.Context, url string) (store.Store, error) {
		s, err := dynamostore.OpenURL(ctx, url)
		return migrated(ctx, s, err)
	}
	return backend{
		name: "DynamoDB", start: startDynamoDB, open: open,
		specs: []spec{
			{name: "floor: put an item on a condition, delete it", cases: "ABD", floor: true, open: openDynamoDBFloor},
			{name: "dynamolock", cases: "ABC", module: "cirello.io/dynamolock/v2", open: openDynamolock},
			oursOn(open),
		},
	}
}

func startDynamoDB(t servers.Test) (*server, error) {
	s := servers.DynamoDB(t)
	p, err := newTap(t, strings.TrimPrefix(s.Endpoint, "http://"), http1)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} { // the emulator takes any
		if err := os.Setenv(name, "any"); err != nil {
			return nil, err
		}
	}
	return &server{
		url: "dynamodb://bench?region=eu-central-1&endpoint=http://" + p.addr(), version: "DynamoDB Local 3.1, an emulator, in memory", pid: s.PID, count: p.count,
	}, nil
}

func dynamoDBClient(url string) *dynamodb.Client {
	_, endpoint, _ := strings.Cut(url, "endpoint=")
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
}

func openDynamoDBFloor(ctx context.Context, url string, _ time.Duration) (contender, error) {
	c, table := dynamoDBClient(url), aws.String("floor")
	_, err := c.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("name"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("name"), KeyType: types.KeyTypeHash}},
	})
	if err := unlessThere(err); err != nil {
		return nil, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			item := map[string]types.AttributeValue{"name": &types.AttributeValueMemberS{Value: name}}
			_, err := c.PutItem(ctx, &dynamodb.PutItemInput{
				TableName: table, Item: item, ConditionExpression: aws.String("attribute_not_exists(#n)"), ExpressionAttributeNames: map[string]string{"#n": "name"},
			})
			var refused *types.ConditionalCheckFailedException
			if errors.As(err, &refused) {
				err = errHeld
			}
			return hold{unlock: func() error {
				_, err := c.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: table, Key: item})
				return err
			}}, err
		},
		close: func() {},
	}, nil
}

// unlessThere returns the error of making a table that does not exist.
func unlessThere(err error) error {
	var there *types.ResourceInUseException
	if errors.As(err, &there) {
		return nil
	}
	return err
}

func openDynamolock(ctx context.Context, url string, ttl time.Duration) (contender, error) {
	const table = "dynamolock"
	locks, err := dynamolock.New(dynamoDBClient(url), table, dynamolock.WithLeaseDuration(ttl), dynamolock.WithHeartbeatPeriod(ttl/3))
	if err != nil {
		return nil, err
	}
	if _, err := locks.CreateTableWithContext(ctx, table); unlessThere(err) != nil {
		return nil, err
	}
	acquire := func(ctx context.Context, name string, options ...dynamolock.AcquireLockOption) (hold, error) {
		l, err := locks.AcquireLockWithContext(ctx, name, options...)
		var refused *dynamolock.LockNotGrantedError
		if errors.As(err, &refused) {
			err = errHeld
		}
		return hold{unlock: func() error {
			released, err := locks.ReleaseLockWithContext(context.Background(), l)
			if err == nil && !released {
				err = errNotMine
			}
			return err
		}}, err
	}
	return plain{
		try: func(ctx context.Context, name string) (hold, error) {
			return acquire(ctx, name, dynamolock.FailIfLocked())
		},
		lock: func(ctx context.Context, name string) (hold, error) {
			return acquire(ctx, name, dynamolock.WithAdditionalTimeToWaitForLock(time.Hour), dynamolock.WithRefreshPeriod(time.Second))
		},
		close: func() { _ = locks.CloseWithContext(context.Background()) },
	}, nil
}
