package crontab

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Aliases can make a short text long: merge keys may name each other, and every job the same long mapping.
const (
	maxMerges = 16      // the depth of merge keys
	maxKeys   = 100_000 // of all mappings together
)

// A mapping is a YAML mapping with its keys by name, merge keys resolved.
type mapping struct {
	line   int
	keys   []string
	key    map[string]*yaml.Node
	values map[string]*yaml.Node
}

// lineOf is where the key stands, or the mapping that lacks it.
func (m *mapping) lineOf(key string) int {
	if n, ok := m.key[key]; ok {
		return n.Line
	}
	return m.line
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}

// mapping reads n, whose keys have to be among known.
func (y *yamlReader) mapping(n *yaml.Node, key string, known []string) *mapping {
	resolvedNode := resolved(n)
	if resolvedNode.Kind != yaml.MappingNode {
		y.fail(n.Line, key, "%s stands here; write keys and values", kind(resolvedNode))
		return nil
	}
	m := &mapping{line: n.Line, key: make(map[string]*yaml.Node), values: make(map[string]*yaml.Node)}
	y.fill(m, resolvedNode, known, 0)
	return m
}

// fill takes the keys of n into m, and those that are merged into n where m has none.
func (y *yamlReader) fill(m *mapping, n *yaml.Node, known []string, depth int) {
	if y.keys += len(n.Content) / 2; y.keys > maxKeys {
		if y.keys-len(n.Content)/2 <= maxKeys {
			y.fail(n.Line, "", "aliases make more than %d keys of this file; make several files of it", maxKeys)
		}
		return
	}
	if depth > maxMerges {
		y.fail(n.Line, "<<", "merge keys are nested too deeply")
		return
	}
	var merged []*yaml.Node
	own := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := resolved(n.Content[i]), n.Content[i+1]
		switch {
		case k.ShortTag() == "!!merge" && len(merged) > 0:
			y.fail(n.Content[i].Line, "<<", "it is set already; merge a list of mappings: <<: [*a, *b]")
			continue
		case k.ShortTag() == "!!merge":
			merged = append(merged, v)
			continue
		case k.Kind != yaml.ScalarNode:
			y.fail(n.Content[i].Line, "", "%s is no key", kind(k))
			continue
		}
		if first, twice := own[k.Value]; twice {
			y.fail(n.Content[i].Line, k.Value, "it is set on line %d already; remove one", first)
			continue
		}
		own[k.Value] = n.Content[i].Line
		if known != nil && !slices.Contains(known, k.Value) {
			if !slices.Contains(known, "x-") || !strings.HasPrefix(k.Value, "x-") {
				y.fail(n.Content[i].Line, k.Value, "there is no such key; the keys are %s", quoted(slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "x-" })))
			}
			continue
		}
		if _, has := m.values[k.Value]; !has {
			m.keys = append(m.keys, k.Value)
			m.key[k.Value], m.values[k.Value] = n.Content[i], v
		}
	}
	for _, v := range merged {
		y.merge(m, v, known, depth+1)
	}
}

func (y *yamlReader) merge(m *mapping, v *yaml.Node, known []string, depth int) {
	switch n := resolved(v); n.Kind {
	case yaml.MappingNode:
		y.fill(m, n, known, depth)
	case yaml.SequenceNode:
		if depth > 1 {
			y.fail(v.Line, "<<", "a list is merged into what is merged; merge one mapping there")
			return
		}
		for _, item := range n.Content {
			if resolved(item).Kind != yaml.MappingNode {
				y.fail(item.Line, "<<", "%s can't be merged; name a mapping", kind(resolved(item)))
				continue
			}
			y.fill(m, resolved(item), known, depth)
		}
	default:
		y.fail(v.Line, "<<", "%s can't be merged; name a mapping", kind(n))
	}
}

// text is the text of a scalar, as it is written.
func (y *yamlReader) text(n *yaml.Node, key string) (string, bool) {
	v := resolved(n)
	switch {
	case v.Kind != yaml.ScalarNode:
		y.fail(n.Line, key, "%s stands here; write one value", kind(v))
	case isNull(v):
		y.fail(n.Line, key, `it has no value; give one ("" is the empty text), or remove the key`)
	case v.ShortTag() == "!!binary" || strings.HasPrefix(v.Tag, "!") && !strings.HasPrefix(v.Tag, "!!"):
		y.fail(n.Line, key, "the tag %s means nothing here; remove it", v.Tag)
	case strings.ContainsRune(v.Value, 0):
		y.fail(n.Line, key, "there is a NUL in it, which no program can be given")
	default:
		return v.Value, true
	}
	return "", false
}
