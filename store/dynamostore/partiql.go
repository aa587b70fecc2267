package dynamostore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/soloist-dev/soloist/store"
	"github.com/soloist-dev/soloist/store/casstore"
)

// The attributes that a statement sets, in the order of its parameters.
var settable = []string{
	attrHolder, attrToken, attrMark, attrState, attrTTL, attrReleased, attrSure, attrVersion, attrGranted, attrForget,
}

// changeSome writes up to writeBatch items in one request.
func (b *backend) changeSome(ctx context.Context, changes []casstore.Change, results []casstore.Result) {
	statements := make([]types.BatchStatementRequest, len(changes))
	for i, c := range changes {
		text, parameters := b.statement(c)
		statements[i] = types.BatchStatementRequest{
			Statement: &text, Parameters: parameters,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}
	}
	var out *dynamodb.BatchExecuteStatementOutput
	err := patiently(ctx, func() (err error) {
		out, err = b.client.BatchExecuteStatement(ctx, &dynamodb.BatchExecuteStatementInput{Statements: statements}, once)
		return err
	})
	if err == nil && len(out.Responses) != len(changes) {
		err = store.AsUnknown(fmt.Errorf("the server returned %d responses to %d statements", len(out.Responses), len(changes)))
	}
	var again []int
	for i, c := range changes {
		switch {
		case err != nil:
			results[i] = casstore.Result{Err: unsent("writing", err)}
		case out.Responses[i].Error == nil:
			results[i] = done(c, nil)
		case tooMany(out.Responses[i].Error.Code):
			again = append(again, i)
		default:
			results[i] = refused(out.Responses[i])
		}
	}
	for _, i := range again { // one by one, with a pause each
		results[i] = b.change(ctx, changes[i])
	}
}

// statement is a change in PartiQL.
func (b *backend) statement(c casstore.Change) (text string, parameters []types.AttributeValue) {
	table := `"` + b.table + `"`
	key := types.AttributeValue(&types.AttributeValueMemberS{Value: c.Name})
	if c.Version == "" {
		item := encode(c.Name, c.Record)
		var pairs []string
		for _, name := range slices.Concat([]string{attrName}, settable) {
			if item[name] != nil {
				pairs, parameters = append(pairs, fmt.Sprintf("'%s': ?", name)), append(parameters, item[name])
			}
		}
		return fmt.Sprintf(`INSERT INTO %s VALUE {%s}`, table, strings.Join(pairs, ", ")), parameters
	}
	where := fmt.Sprintf(`WHERE "%s" = ? AND "%s" = ? AND "%s" = ?`, attrName, attrVersion, attrToken)
	version, token := parts(c.Version)
	if c.Record == nil {
		return fmt.Sprintf(`DELETE FROM %s %s`, table, where), []types.AttributeValue{key, version, token}
	}
	item := encode(c.Name, c.Record)
	var sets, removes []string
	for _, name := range settable {
		if item[name] != nil {
			sets, parameters = append(sets, fmt.Sprintf(`SET "%s" = ?`, name)), append(parameters, item[name])
		} else {
			removes = append(removes, fmt.Sprintf(`REMOVE "%s"`, name))
		}
	}
	text = fmt.Sprintf(`UPDATE %s %s %s`, table, strings.Join(append(sets, removes...), " "), where)
	return text, append(parameters, key, version, token)
}

// refused is the result of a statement that failed.
func refused(r types.BatchStatementResponse) casstore.Result {
	switch code := r.Error.Code; code {
	case types.BatchStatementErrorCodeEnumConditionalCheckFailed, types.BatchStatementErrorCodeEnumDuplicateItem:
		return conflicting(r.Error.Item)
	case types.BatchStatementErrorCodeEnumInternalServerError, types.BatchStatementErrorCodeEnumTransactionConflict:
		return casstore.Result{Err: store.AsUnknown(statementError(r))}
	default:
		return casstore.Result{Err: statementError(r)}
	}
}

// statementError is what a single write returns where the service has a code of its own for statements.
func statementError(r types.BatchStatementResponse) error {
	message := aws.ToString(r.Error.Message)
	switch code := r.Error.Code; code {
	case types.BatchStatementErrorCodeEnumAccessDenied:
		return wrap("writing", &smithy.GenericAPIError{Code: noRight, Message: message})
	case types.BatchStatementErrorCodeEnumResourceNotFound:
		return wrap("writing", &types.ResourceNotFoundException{Message: r.Error.Message})
	default:
		return wrap("writing", &smithy.GenericAPIError{Code: string(code), Message: message})
	}
}

// tooMany reports whether a statement was refused because there are too many.
func tooMany(code types.BatchStatementErrorCodeEnum) bool {
	switch code {
	case types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded, types.BatchStatementErrorCodeEnumRequestLimitExceeded,
		types.BatchStatementErrorCodeEnumThrottlingError:
		return true
	}
	return false
}
