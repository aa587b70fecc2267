package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// Migrate implements store.Migrator: it makes the table, billed by request, and waits until it can be used.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	if err := casstore.Ready(ctx, s.Store); err != nil {
		return nil, err
	}
	table := s.backend.table
	_, err := s.backend.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &table,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrName), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrName), KeyType: types.KeyTypeHash}},
	})
	var there *types.ResourceInUseException
	switch {
	case errors.As(err, &there):
		description, err := s.backend.describe(ctx)
		if err != nil {
			return nil, err
		}
		if problem := keyProblem(description); problem != "" {
			return nil, fmt.Errorf("dynamostore: the table %s %s: choose another name: %w", table, problem, store.ErrSchema)
		}
		return nil, s.active(ctx)
	case err != nil:
		return nil, wrap("making the table", err)
	}
	return []string{fmt.Sprintf("table %s made, billed by request", table)}, s.active(ctx)
}

// active waits until the table can be used.
func (s *Store) active(ctx context.Context) error {
	waiter := dynamodb.NewTableExistsWaiter(s.backend.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 2*time.Second
	})
	err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &s.backend.table}, 10*time.Minute)
	if err != nil {
		return wrap("waiting for the table", err)
	}
	return nil
}

// Schema implements store.Migrator: a command of the AWS command line.
func (s *Store) Schema() string {
	return fmt.Sprintf(`aws dynamodb create-table --table-name %s \
  --attribute-definitions AttributeName=%[2]s,AttributeType=S \
  --key-schema AttributeName=%[2]s,KeyType=HASH \
  --billing-mode PAY_PER_REQUEST
`, s.backend.table, attrName)
}

func (b *backend) describe(ctx context.Context) (*types.TableDescription, error) {
	out, err := b.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &b.table})
	if err != nil {
		return nil, wrap("looking at the table", err)
	}
	if out.Table == nil {
		return nil, wrap("looking at the table", errNoItem)
	}
	return out.Table, nil
}

// global reports whether a table is a global table. One of the version 2017.11.29 does not say so itself, but has a stream with the new and the old images.
func (b *backend) global(ctx context.Context, t *types.TableDescription) (bool, error) {
	stream := t.StreamSpecification
	switch {
	case len(t.Replicas) > 0:
		return true, nil
	case stream == nil || !aws.ToBool(stream.StreamEnabled) || stream.StreamViewType != types.StreamViewTypeNewAndOldImages || emulated(t):
		return false, nil
	}
	_, err := b.client.DescribeGlobalTable(ctx, &dynamodb.DescribeGlobalTableInput{GlobalTableName: &b.table})
	var none *types.GlobalTableNotFoundException
	switch {
	case errors.As(err, &none):
		return false, nil
	case err != nil:
		return false, wrap("asking whether it is a global table", err)
	}
	return true, nil
}

// emulated reports whether a table is one of DynamoDB Local, which has no global tables.
func emulated(t *types.TableDescription) bool {
	return strings.Contains(aws.ToString(t.TableArn), ":ddblocal:")
}

// keyProblem returns what is wrong with the key of a table, or returns "".
func keyProblem(t *types.TableDescription) string {
	if len(t.KeySchema) == 1 && aws.ToString(t.KeySchema[0].AttributeName) == attrName && t.KeySchema[0].KeyType == types.KeyTypeHash {
		for _, a := range t.AttributeDefinitions {
			if aws.ToString(a.AttributeName) == attrName && a.AttributeType == types.ScalarAttributeTypeS {
				return ""
			}
		}
	}
	return fmt.Sprintf("is not soloist's: its key is not the text %q alone", attrName)
}
