package strictyaml

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/soloist-dev/soloist/cmd/soloist/internal/nearest"
)

// name is the form of a key that is no secret which has been written in the place of one.
var name = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Aliases can make a short text long: merge keys may name each other, and every job the same long mapping.
const (
	maxMerges = 16      // the depth of merge keys
	maxKeys   = 100_000 // of all mappings together
)

// A Mapping is a YAML mapping with its keys by name, merge keys resolved.
type Mapping struct {
	Line   int
	Keys   []string              // in their order
	Key    map[string]*yaml.Node // where each stands
	Values map[string]*yaml.Node
}

// LineOf is where the key stands, or the mapping that lacks it.
func (m *Mapping) LineOf(key string) int {
	if n, ok := m.Key[key]; ok {
		return n.Line
	}
	return m.Line
}

// Resolved is the node that an alias names, or n itself.
func Resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// IsNull reports whether nothing stands where a value could.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Items returns the elements of a list; nil if n is none.
func Items(n *yaml.Node) []*yaml.Node {
	if list := Resolved(n); list.Kind == yaml.SequenceNode {
		return append([]*yaml.Node{}, list.Content...)
	}
	return nil
}

// Kind is what n is, for messages.
func (r *Reader) Kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case IsNull(n):
		return "nothing"
	case r.HideValues:
		return "a single value"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}

// Mapping reads n, whose keys have to be among known: any, if that is nil. The known key "x-" stands for all that begin with it, which are not
// read. key is that of n, for messages. It returns nil if n is no mapping.
func (r *Reader) Mapping(n *yaml.Node, key string, known []string) *Mapping {
	resolvedNode := Resolved(n)
	if resolvedNode.Kind != yaml.MappingNode {
		r.Fail(n.Line, key, "%s stands here; write keys and values", r.Kind(resolvedNode))
		return nil
	}
	m := &Mapping{Line: n.Line, Key: make(map[string]*yaml.Node), Values: make(map[string]*yaml.Node)}
	r.fill(m, resolvedNode, known, 0)
	return m
}

// fill takes the keys of n into m, and those that are merged into n where m has none.
func (r *Reader) fill(m *Mapping, n *yaml.Node, known []string, depth int) {
	if r.keys += len(n.Content) / 2; r.keys > maxKeys {
		if r.keys-len(n.Content)/2 <= maxKeys {
			r.Fail(n.Line, "", "aliases make more than %d keys of this file; make several files of it", maxKeys)
		}
		return
	}
	if depth > maxMerges {
		r.Fail(n.Line, "<<", "merge keys are nested too deeply")
		return
	}
	var merged []*yaml.Node
	own := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := Resolved(n.Content[i]), n.Content[i+1]
		switch {
		case k.ShortTag() == "!!merge" && len(merged) > 0:
			r.Fail(n.Content[i].Line, "<<", "it is set already; merge a list of mappings: <<: [*a, *b]")
			continue
		case k.ShortTag() == "!!merge":
			merged = append(merged, v)
			continue
		case k.Kind != yaml.ScalarNode:
			r.Fail(n.Content[i].Line, "", "%s is no key", r.Kind(k))
			continue
		}
		if first, twice := own[k.Value]; twice {
			r.Fail(n.Content[i].Line, k.Value, "it is set on line %d already; remove one", first)
			continue
		}
		own[k.Value] = n.Content[i].Line
		if known != nil && !slices.Contains(known, k.Value) {
			if !slices.Contains(known, "x-") || !strings.HasPrefix(k.Value, "x-") {
				r.unknown(n.Content[i], k.Value, known)
			}
			continue
		}
		if _, has := m.Values[k.Value]; !has {
			m.Keys = append(m.Keys, k.Value)
			m.Key[k.Value], m.Values[k.Value] = n.Content[i], v
		}
	}
	for _, v := range merged {
		r.merge(m, v, known, depth+1)
	}
}

// unknown reports a key that is not among known.
func (r *Reader) unknown(n *yaml.Node, key string, known []string) {
	known = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "x-" })
	if r.HideValues && !name.MatchString(key) {
		r.Fail(n.Line, "", "what stands here is no name of a key; the keys are %s", strings.Join(known, ", "))
		return
	}
	if meant := nearest.Of(key, known); meant != "" {
		r.Fail(n.Line, key, "there is no such key: did you mean %s? The keys are %s", meant, strings.Join(known, ", "))
		return
	}
	r.Fail(n.Line, key, "there is no such key; the keys are %s", strings.Join(known, ", "))
}

func (r *Reader) merge(m *Mapping, v *yaml.Node, known []string, depth int) {
	switch n := Resolved(v); n.Kind {
	case yaml.MappingNode:
		r.fill(m, n, known, depth)
	case yaml.SequenceNode:
		if depth > 1 {
			r.Fail(v.Line, "<<", "a list is merged into what is merged; merge one mapping there")
			return
		}
		for _, item := range n.Content {
			if Resolved(item).Kind != yaml.MappingNode {
				r.Fail(item.Line, "<<", "%s can't be merged; name a mapping", r.Kind(Resolved(item)))
				continue
			}
			r.fill(m, Resolved(item), known, depth)
		}
	default:
		r.Fail(v.Line, "<<", "%s can't be merged; name a mapping", r.Kind(n))
	}
}

// Text is the text of a scalar, as it is written.
func (r *Reader) Text(n *yaml.Node, key string) (string, bool) {
	v := Resolved(n)
	switch {
	case v.Kind != yaml.ScalarNode:
		r.Fail(n.Line, key, "%s stands here; write one value", r.Kind(v))
	case IsNull(v):
		r.Fail(n.Line, key, `it has no value; give one ("" is the empty text), or remove the key`)
	case r.HideValues && strings.HasPrefix(v.Tag, "!") && !strings.HasPrefix(v.Tag, "!!"):
		r.Fail(n.Line, key, "a tag means nothing here; remove it, or put the value in quotes")
	case v.ShortTag() == "!!binary" || strings.HasPrefix(v.Tag, "!") && !strings.HasPrefix(v.Tag, "!!"):
		r.Fail(n.Line, key, "the tag %s means nothing here; remove it", v.Tag)
	case strings.ContainsRune(v.Value, 0):
		r.Fail(n.Line, key, "there is a NUL in it, which no program can be given")
	default:
		return v.Value, true
	}
	return "", false
}
