package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/soloist-dev/soloist/store"
)

// object is an object of JSON.
type object = map[string]any

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// describe returns the description of the API in OpenAPI 3.1, made from the routes and their types.
func (s *Server) describe() ([]byte, error) {
	schemas := object{}
	paths := map[string]object{}
	for _, r := range s.routes {
		op, err := r.describe(schemas)
		if err != nil {
			return nil, fmt.Errorf("describing %s %s: %w", r.method, r.path, err)
		}
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = op
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info":    object{"title": "soloist", "version": "1", "description": "Locks, leaders, semaphores, elements and jobs of a fleet. All durations are in seconds."},
		"paths":   paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
		"security": []object{{"token": []string{}}, {}},
	})
}

// describe returns the operation of a route, and adds the schemas of its types.
func (r route) describe(schemas object) (object, error) {
	parameters := []object{}
	for _, m := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": part(m[1])})
	}
	for _, p := range r.query {
		parameters = append(parameters, p.describe("query"))
	}
	for _, p := range r.header {
		parameters = append(parameters, p.describe("header"))
	}
	if r.key {
		parameters = append(parameters, object{"name": keyHeader, "in": "header", "schema": object{"type": "string", "minLength": minKey, "maxLength": mxKey, "pattern": "^[ -~]*$"},
			"description": "random, and new for each lease: a request that is repeated with it gets the same lease"})
	}
	op := object{
		"operationId": operationID(r), "summary": r.summary, "description": "Needs the role " + r.role.String() + ".", "parameters": parameters,
	}
	if r.takes {
		op["description"] = "Needs the role " + r.role.String() + ", if the service has tokens."
	}
	if r.in != nil {
		ref, err := schemaOf(r.in, schemas)
		if err != nil {
			return nil, err
		}
		bound(schemas[typeName(r.in)].(*jsonschema.Schema))
		op["requestBody"] = object{"required": r.needed, "content": object{"application/json": object{"schema": ref}}}
	}
	fails, err := schemaOf(reflect.TypeFor[Problem](), schemas)
	if err != nil {
		return nil, err
	}
	codes := slices.Concat(r.codes, []string{codeInvalid, codeUnauthenticated, codeForbidden, codeUnavailable})
	failure := object{"description": "A problem; particular codes: " + strings.Join(codes, ", "), "content": object{"application/problem+json": object{"schema": fails}}}
	responses := object{"default": failure}
	switch {
	case r.out == nil:
		responses[strconv.Itoa(http.StatusNoContent)] = object{"description": "done"}
	default:
		ref, err := schemaOf(r.out, schemas)
		if err != nil {
			return nil, err
		}
		kind := cmp.Or(r.stream, "application/json")
		responses[strconv.Itoa(http.StatusOK)] = object{"description": "done", "content": object{kind: object{"schema": ref}}}
	}
	op["responses"] = responses
	return op, nil
}

func (p parameter) describe(in string) object {
	schema := object{"type": "string"}
	if p.most != 0 {
		schema = object{"type": "integer", "minimum": p.least, "maximum": p.most}
	}
	return object{"name": p.name, "in": in, "description": p.about, "required": p.needed, "schema": schema}
}

// printable is the pattern of a text without control characters.
const printable = `^[^\x00-\x1f\x7f-\x9f]*$`

// part returns the schema of a part of a path. The bounds of texts are in bytes, of which a character can have several.
func part(name string) object {
	switch name {
	case "permit":
		return object{"type": "integer", "minimum": 0, "maximum": maxPermits - 1}
	case "lease":
		return object{"type": "string", "minLength": 1, "maxLength": maxTicket}
	}
	return object{"type": "string", "minLength": 1, "maxLength": store.MaxName, "pattern": printable}
}

// bound adds to the schema of a body what its fields may be, which their types do not say.
func bound(body *jsonschema.Schema) {
	number := func(least, most float64) func(*jsonschema.Schema) {
		return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = &least, &most }
	}
	text := func(least, most int, pattern string) func(*jsonschema.Schema) {
		return func(s *jsonschema.Schema) { s.MinLength, s.MaxLength, s.Pattern = &least, &most, pattern }
	}
	for name, of := range map[string]func(*jsonschema.Schema){
		"ttl": func(s *jsonschema.Schema) {
			most := &jsonschema.Schema{}
			number(1, maxSeconds)(most)
			s.AnyOf = []*jsonschema.Schema{{Const: jsonschema.Ptr[any](0)}, most}
		},
		"wait": number(0, maxWait), "atLeast": number(0, maxSeconds), "backoff": number(0, maxSeconds), "retain": number(0, maxSeconds),
		"attempts": number(0, math.MaxInt32), "replica": text(0, maxReplica, printable), "lease": text(1, maxTicket, ""),
		"ids": func(s *jsonschema.Schema) {
			s.MinItems, s.MaxItems = jsonschema.Ptr(1), jsonschema.Ptr(maxBatch)
			text(1, store.MaxName, printable)(s.Items)
		},
	} {
		if field := body.Properties[name]; field != nil {
			of(field)
		}
	}
	if body.Properties["ids"] != nil { // a claim of many elements does not wait
		number(0, 0)(body.Properties["wait"])
	}
}

// operationID returns the name of an operation, such as post-v1-locks-name-acquire.
func operationID(r route) string {
	return strings.ToLower(r.method) + strings.NewReplacer("/", "-", "{", "", "}", "").Replace(r.path)
}

// typeName is what the description calls a type.
func typeName(t reflect.Type) string {
	name := strings.NewReplacer("[", "Of", "]", "", "github.com/soloist-dev/soloist/server.", "").Replace(t.Name())
	if name == "PageOfstring" {
		return "PageOfJobName"
	}
	return name
}

// schemaOf adds the schema of a type, and returns a reference to it.
func schemaOf(t reflect.Type, schemas object) (object, error) {
	name := typeName(t)
	if schemas[name] == nil {
		schema, err := jsonschema.ForType(t, nil)
		if err != nil {
			return nil, err
		}
		schemas[name] = schema
	}
	return object{"$ref": "#/components/schemas/" + name}, nil
}
