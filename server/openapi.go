package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
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
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.query {
		parameters = append(parameters, p.describe("query"))
	}
	for _, p := range r.header {
		parameters = append(parameters, p.describe("header"))
	}
	if r.key {
		parameters = append(parameters, object{"name": keyHeader, "in": "header", "schema": object{"type": "string", "minLength": minKey, "maxLength": mxKey},
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
	kind := "string"
	if p.number {
		kind = "integer"
	}
	return object{"name": p.name, "in": in, "description": p.about, "schema": object{"type": kind}}
}

// operationID returns the name of an operation, such as post-v1-locks-name-acquire.
func operationID(r route) string {
	return strings.ToLower(r.method) + strings.NewReplacer("/", "-", "{", "", "}", "").Replace(r.path)
}

// schemaOf adds the schema of a type, and returns a reference to it.
func schemaOf(t reflect.Type, schemas object) (object, error) {
	name := strings.NewReplacer("[", "Of", "]", "", "github.com/soloist-dev/soloist/server.", "").Replace(t.Name())
	if name == "PageOfstring" {
		name = "PageOfJobName"
	}
	if schemas[name] == nil {
		schema, err := jsonschema.ForType(t, nil)
		if err != nil {
			return nil, err
		}
		schemas[name] = schema
	}
	return object{"$ref": "#/components/schemas/" + name}, nil
}
