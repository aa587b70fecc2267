package dynamostore

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/soloist-dev/soloist/store/casstore"
	"github.com/soloist-dev/soloist/store/internal/parallel"
)

// The limits of the service: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html and
// …/API_BatchExecuteStatement.html.
const (
	readBatch  = 100
	writeBatch = 25
)

// flights is how many requests of one batch are under way at once.
const flights = 8

// A backend is the items of one table.
type backend struct {
	client *dynamodb.Client
	table  string
	guard  guard
}

// once prevents the SDK from repeating a write: after an attempt whose outcome is unknown, the error of the next
// would hide that. The SDK may repeat reads.
func once(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }

// Read implements casstore.Backend.
func (b *backend) Read(ctx context.Context, names []string) ([]casstore.Item, error) {
	if err := b.guard.check(ctx, b); err != nil {
		return nil, err
	}
	items := make([]casstore.Item, len(names))
	index := make(map[string]int, len(names))
	for i, name := range names {
		items[i].Name, index[name] = name, i
	}
	err := inParallel(names, readBatch, func(some []string) error {
		found, err := b.get(ctx, some)
		for _, attrs := range found {
			item := decode(attrs)
			if i, ok := index[item.Name]; ok {
				items[i] = item // no two of some are the same, so no two goroutines write here
			}
		}
		return err
	})
	if err != nil {
		return nil, wrap("reading", err)
	}
	return items, nil
}

// get reads up to readBatch items.
func (b *backend) get(ctx context.Context, names []string) (found []attributes, err error) {
	keys := make([]attributes, len(names))
	for i, name := range names {
		keys[i] = attributes{attrName: &types.AttributeValueMemberS{Value: name}}
	}
	if len(keys) == 1 {
		err := patiently(ctx, func() error {
			out, err := b.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &b.table, Key: keys[0], ConsistentRead: aws.Bool(true)})
			if err == nil && out.Item != nil {
				found = []attributes{out.Item}
			}
			return err
		})
		return found, err
	}
	for wait := firstWait; len(keys) > 0; {
		var out *dynamodb.BatchGetItemOutput
		err := patiently(ctx, func() (err error) {
			request := map[string]types.KeysAndAttributes{b.table: {Keys: keys, ConsistentRead: aws.Bool(true)}}
			out, err = b.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: request})
			return err
		})
		if err != nil {
			return found, err
		}
		found = append(found, out.Responses[b.table]...)
		if keys = out.UnprocessedKeys[b.table].Keys; len(keys) > 0 {
			if err := pause(ctx, &wait); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// Write implements casstore.Backend. One change is a PutItem or DeleteItem. Several are statements of PartiQL, 25 in a
// request, each with its own outcome; they cost as much as single writes do.
func (b *backend) Write(ctx context.Context, changes []casstore.Change) ([]casstore.Result, error) {
	if err := b.guard.check(ctx, b); err != nil {
		return nil, err
	}
	results := make([]casstore.Result, len(changes))
	indexes := make([]int, len(changes))
	for i := range indexes {
		indexes[i] = i
	}
	_ = inParallel(indexes, writeBatch, func(some []int) error {
		if len(some) == 1 {
			results[some[0]] = b.change(ctx, changes[some[0]])
			return nil
		}
		b.changeSome(ctx, changes[some[0]:some[len(some)-1]+1], results[some[0]:some[len(some)-1]+1])
		return nil
	})
	return results, nil
}

// change writes one item.
func (b *backend) change(ctx context.Context, c casstore.Change) casstore.Result {
	if c.Free {
		return b.take(ctx, c)
	}
	condition, values := "attribute_not_exists(#key)", attributes(nil)
	names := map[string]string{"#key": attrName}
	if c.Version != "" {
		condition, names = "#version = :version AND #token = :token", map[string]string{"#version": attrVersion, "#token": attrToken}
		values = attributes{}
		values[":version"], values[":token"] = parts(c.Version)
	}
	err := patiently(ctx, func() (err error) {
		if c.Record == nil {
			_, err = b.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: &b.table, Key: attributes{attrName: &types.AttributeValueMemberS{Value: c.Name}},
				ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			}, once)
			return err
		}
		_, err = b.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &b.table, Item: encode(c.Name, c.Record),
			ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, once)
		return err
	})
	var conflict *types.ConditionalCheckFailedException
	if errors.As(err, &conflict) {
		return conflicting(conflict.Item)
	}
	return done(c, err)
}

// take changes an item whatever its version is, if the name is free; see casstore.Change.Free.
func (b *backend) take(ctx context.Context, c casstore.Change) casstore.Result {
	item := encode(c.Name, c.Record)
	names := map[string]string{"#name": attrName, "#forget": attrForget}
	values := attributes{":base": number(c.Record.Token - 1), ":last": number(math.MaxInt64), ":one": number(1), ":zero": number(0), ":true": &types.AttributeValueMemberBOOL{Value: true}}
	sets := []string{"#token = if_not_exists(#token, :base) + :one", "#mark = if_not_exists(#mark, :zero)"}
	for placeholder, attr := range map[string]string{
		"#token": attrToken, "#mark": attrMark, "#holder": attrHolder, "#ttl": attrTTL, "#released": attrReleased, "#version": attrVersion, "#granted": attrGranted,
	} {
		names[placeholder] = attr
		if value := ":" + placeholder[1:]; attr != attrToken && attr != attrMark {
			values[value] = item[attr]
			sets = append(sets, placeholder+" = "+value)
		}
	}
	free := "#released = :true AND #ttl = :zero AND #token >= :base AND #token < :last" // a number of DynamoDB can be one greater than the last token
	if c.Below != 0 {
		free += " AND #mark < :below"
		values[":below"] = number(c.Below)
	}
	var out *dynamodb.UpdateItemOutput
	err := patiently(ctx, func() (err error) {
		out, err = b.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &b.table, Key: attributes{attrName: item[attrName]},
			UpdateExpression:         aws.String("SET " + strings.Join(sets, ", ") + " REMOVE #forget"),
			ConditionExpression:      aws.String("attribute_not_exists(#name) OR (" + free + ")"),
			ExpressionAttributeNames: names, ExpressionAttributeValues: values,
			ReturnValues:                        types.ReturnValueAllNew,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, once)
		return err
	})
	var conflict *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &conflict):
		return conflicting(conflict.Item)
	case err != nil:
		return done(c, err)
	}
	now := decode(out.Attributes)
	return casstore.Result{Version: c.Record.Version(), Current: &now}
}

// done is the result of a change that met no conflict.
func done(c casstore.Change, err error) casstore.Result {
	switch {
	case err != nil:
		return casstore.Result{Err: unsent("writing", err)}
	case c.Record == nil:
		return casstore.Result{}
	}
	return casstore.Result{Version: c.Record.Version()}
}

// conflicting is the result of a change whose condition did not hold. If the service has returned no item, there may be
// none, or a service like DynamoDB does not return items then: so it is read.
func conflicting(attrs attributes) casstore.Result {
	if len(attrs) == 0 {
		return casstore.Result{Err: casstore.ErrConflict}
	}
	item := decode(attrs)
	return casstore.Result{Err: casstore.ErrConflict, Current: &item}
}

// List implements casstore.Backend. It scans the whole table, and sorts what it found: DynamoDB keeps no order of keys.
func (b *backend) List(ctx context.Context, prefix string) iter.Seq2[casstore.Item, error] {
	return func(yield func(casstore.Item, error) bool) {
		items, err := b.scan(ctx, prefix)
		if err != nil {
			yield(casstore.Item{}, wrap("listing", err))
			return
		}
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func (b *backend) scan(ctx context.Context, prefix string) (items []casstore.Item, err error) {
	if err := b.guard.check(ctx, b); err != nil {
		return nil, err
	}
	in := &dynamodb.ScanInput{TableName: &b.table, ConsistentRead: aws.Bool(true)}
	if prefix != "" {
		in.FilterExpression = aws.String("begins_with(#key, :prefix)")
		in.ExpressionAttributeNames = map[string]string{"#key": attrName}
		in.ExpressionAttributeValues = attributes{":prefix": &types.AttributeValueMemberS{Value: prefix}}
	}
	for {
		var out *dynamodb.ScanOutput
		if err := patiently(ctx, func() (err error) { out, err = b.client.Scan(ctx, in); return err }); err != nil {
			return nil, err
		}
		for _, attrs := range out.Items {
			items = append(items, decode(attrs))
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			break
		}
	}
	slices.SortFunc(items, func(a, b casstore.Item) int { return strings.Compare(a.Name, b.Name) })
	return items, nil
}

// Walk implements casstore.Backend. The cursor is a name, as the service returns it.
func (b *backend) Walk(ctx context.Context, cursor string, n int) (items []casstore.Item, next string, err error) {
	if err := b.guard.check(ctx, b); err != nil {
		return nil, "", err
	}
	in := &dynamodb.ScanInput{TableName: &b.table, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(min(n, 1000)))} //nolint:gosec // small
	if cursor != "" {
		in.ExclusiveStartKey = attributes{attrName: &types.AttributeValueMemberS{Value: cursor}}
	}
	var out *dynamodb.ScanOutput
	if err := patiently(ctx, func() (err error) { out, err = b.client.Scan(ctx, in); return err }); err != nil {
		return nil, "", wrap("looking for what may be forgotten", err)
	}
	for _, attrs := range out.Items {
		items = append(items, decode(attrs))
	}
	if last, ok := out.LastEvaluatedKey[attrName].(*types.AttributeValueMemberS); ok {
		next = last.Value
	}
	return items, next, nil
}

// Close implements casstore.Backend. The client is its owner's.
func (b *backend) Close() error { return nil }

// inParallel calls f with at most n of the elements at a time, up to flights calls at once.
func inParallel[T any](all []T, n int, f func([]T) error) error {
	parts := slices.Collect(slices.Chunk(all, n))
	errs := make([]error, len(parts))
	parallel.Do(len(parts), flights, func(i int) { errs[i] = f(parts[i]) })
	return errors.Join(errs...)
}

// The waits between attempts that the service refused because there were too many.
const (
	firstWait = 25 * time.Millisecond
	longest   = time.Second
)

// patiently repeats a request while the service refuses it because there are too many, until ctx ends. Such a request has
// had no effect.
func patiently(ctx context.Context, request func() error) error {
	for wait := firstWait; ; {
		err := request()
		if !throttled(err) {
			return err
		}
		if pause(ctx, &wait) != nil {
			return err
		}
	}
}

// pause waits for a random part of a time that doubles.
func pause(ctx context.Context, wait *time.Duration) error {
	timer := time.NewTimer(*wait/2 + rand.N(*wait/2+1))
	defer timer.Stop()
	*wait = min(2*(*wait), longest)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
