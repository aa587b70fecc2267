package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/soloist-dev/soloist/soloisttest"
)

// A described operation is one of the description of the API, as far as it says what a request may have.
type described struct {
	method, path string
	parameters   []struct {
		Name, In string
		Required bool
		Schema   jsonschema.Schema
	}
	body *jsonschema.Schema
}

// operations returns the operations of the description.
func (s *service) operations() (all []described) {
	s.t.Helper()
	var d struct {
		Components struct{ Schemas map[string]*jsonschema.Schema }
		Paths      map[string]map[string]struct {
			Parameters  json.RawMessage
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal(s.server.openapi, &d); err != nil {
		s.t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for method, op := range d.Paths[path] {
			o := described{method: strings.ToUpper(method), path: path}
			if err := json.Unmarshal(op.Parameters, &o.parameters); err != nil {
				s.t.Fatal(err)
			}
			if ref := op.RequestBody.Content["application/json"].Schema.Ref; ref != "" {
				o.body = d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
			}
			all = append(all, o)
		}
	}
	return all
}

// refused reports whether a request is refused for a field.
func (s *service) refused(o described, path string, body any, field string) (bool, string) {
	a := s.send(o.method, path, body)
	p := Problem{}
	_ = json.Unmarshal(a.body, &p)
	said := fmt.Sprintf("%s %.200s %.200v: %d %.200s", o.method, path, body, a.status, a.body)
	return a.status == 400 && len(p.Errors) > 0 && p.Errors[0].Field == field, said
}

// outside returns values that a schema does not allow, and the extremes of those that it does.
func outside(schema *jsonschema.Schema) (wrong, right []any) {
	least, most := schema.Minimum, schema.Maximum
	for _, other := range schema.AnyOf { // or 0
		if other.Minimum != nil {
			least, most = other.Minimum, other.Maximum
			wrong = append(wrong, *least/2)
		}
	}
	if least != nil {
		wrong, right = append(wrong, -1.0, *most+1), append(right, *least)
		if *most < 1<<53 { // else it is not the number that it is in the description
			right = append(right, *most)
		}
	}
	if schema.MaxLength != nil && schema.MinItems == nil {
		wrong = append(wrong, strings.Repeat("x", *schema.MaxLength+1))
	}
	if schema.Pattern != "" {
		wrong, right = append(wrong, "a\u0085b", "a\tb"), append(right, "a b")
	}
	if schema.MinItems != nil {
		wrong, right = append(wrong, []string{}, slices.Repeat([]string{"x"}, *schema.MaxItems+1)), append(right, []string{"an element"})
	}
	return wrong, right
}

// TestDescribedBounds: what the description says of the numbers, texts and lists of a request is what the service takes.
func TestDescribedBounds(t *testing.T) {
	s := start(t, soloisttest.NewStore(), Config{OpenActions: true})
	checked := 0
	check := func(o described, schema *jsonschema.Schema, field string, request func(value any) (path string, body any)) {
		wrong, right := outside(schema)
		for _, value := range wrong {
			path, body := request(value)
			if refused, said := s.refused(o, path, body, field); !refused {
				t.Errorf("%s; %q is not within its description", said, field)
			}
			checked++
		}
		for _, value := range right {
			path, body := request(value)
			if refused, said := s.refused(o, path, body, field); refused {
				t.Errorf("%s; %q is within its description", said, field)
			}
			checked++
		}
	}
	usual := func(path string) string { // of a name that nobody holds
		return strings.NewReplacer("{permit}", "1", "{name}", fmt.Sprint("x", checked), "{job}", "x", "{id}", fmt.Sprint("x", checked), "{lease}", "x").Replace(path)
	}
	for _, o := range s.operations() {
		if strings.HasSuffix(o.path, "/hold") || o.path == "/v1/events" { // their responses go on
			continue
		}
		query := url.Values{}
		for _, p := range o.parameters {
			if p.Required && p.In == "query" {
				query.Set(p.Name, "1")
			}
		}
		suffix := ""
		if len(query) > 0 {
			suffix = "?" + query.Encode()
		}
		for _, p := range o.parameters {
			switch p.In {
			case "query":
				check(o, &p.Schema, p.Name, func(value any) (string, any) {
					changed := maps.Clone(query)
					changed.Set(p.Name, fmt.Sprintf("%.0f", value))
					return usual(o.path) + "?" + changed.Encode(), nil
				})
			case "path":
				if p.Schema.Maximum == nil {
					continue
				}
				check(o, &p.Schema, p.Name, func(value any) (string, any) {
					return usual(strings.Replace(o.path, "{"+p.Name+"}", fmt.Sprintf("%.0f", value), 1)) + suffix, nil
				})
			}
		}
		if o.body == nil {
			continue
		}
		for field, schema := range o.body.Properties {
			check(o, schema, field, func(value any) (string, any) {
				body := object{field: value}
				if slices.Contains(o.body.Required, "ids") && field != "ids" {
					body["ids"] = []string{fmt.Sprint("x", checked)}
				}
				return usual(o.path) + suffix, body
			})
		}
	}
	if checked < 100 {
		t.Errorf("only %d values were tried", checked)
	}
}
