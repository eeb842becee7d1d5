//lint:file-ignore SA1019 The module behind this package is no direct requirement of ours.

// Package yamlmerge writes out the merge keys (<<) of a YAML text, so that a strict decoder does
// not count an overridden field as repeated:
//
//	data, err = yamlmerge.Expand(data)
//	err = yaml.UnmarshalStrict(data, &config)
package yamlmerge

import (
	"bytes"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml/goyaml.v3"
)

// maxValues bounds the number of values in an expanded text, as aliases multiply.
const maxValues = 1 << 18

var errTooManyValues = fmt.Errorf("more than %d values with expanded merge keys and aliases", maxValues)

// Expand returns the first document of a YAML text with the fields of merge keys and aliases
// written out. The own field of an object replaces a merged field, regardless of their order. Of
// several objects in one merge key the first with a field wins, of several merge keys the last.
// A repeated own field is an error with the line. A text without merge keys, or with invalid YAML,
// is returned unchanged, so that the decoder's errors have the lines of the original.
func Expand(text []byte) ([]byte, error) {
	if !bytes.Contains(text, []byte("<<")) {
		return text, nil
	}
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || !hasMergeKey(&root) {
		return text, nil
	}
	x := expander{open: map[*yaml.Node]bool{}}
	expanded, err := x.expand(&root)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(expanded)
}

func hasMergeKey(n *yaml.Node) bool {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && isMergeKey(child) || hasMergeKey(child) {
			return true
		}
	}
	return false
}

// isMergeKey reports whether a key is <<, without quotes.
func isMergeKey(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge"
}

type expander struct {
	// open are the nodes that are being expanded.
	open   map[*yaml.Node]bool
	values int
}

// expand returns a copy of a node without anchors, aliases, merge keys and comments.
func (x *expander) expand(n *yaml.Node) (*yaml.Node, error) {
	if x.values++; x.values > maxValues {
		return nil, errTooManyValues
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if x.open[n] {
		return nil, fmt.Errorf("line %d: anchor %q contains itself", n.Line, n.Anchor)
	}
	x.open[n] = true
	defer delete(x.open, n)
	out := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	switch n.Kind {
	case yaml.ScalarNode:
		// A quoted text is the same on one line. Plain scalars stay plain, because their type
		// depends on the decoder.
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			out.Style = n.Style&yaml.TaggedStyle | yaml.DoubleQuotedStyle
		}
		return out, nil
	case yaml.MappingNode:
		return out, x.fields(n, out)
	}
	for _, child := range n.Content {
		c, err := x.expand(child)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, c)
	}
	return out, nil
}

// fields appends the fields of a mapping to out: first the own fields, then the merged fields that
// are missing.
func (x *expander) fields(n, out *yaml.Node) error {
	has, merged := map[string]bool{}, []*yaml.Node(nil)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if isMergeKey(key) {
			objects, err := x.mergedObjects(n.Content[i+1])
			if err != nil {
				return err
			}
			merged = append(objects, merged...)
			continue
		}
		if key.Kind == yaml.ScalarNode && has[key.Value] {
			return fmt.Errorf("line %d: key %.80q already set in map", key.Line, key.Value)
		}
		has[key.Value] = true
		if err := x.field(key, n.Content[i+1], out); err != nil {
			return err
		}
	}
	for _, object := range merged {
		for i := 0; i+1 < len(object.Content); i += 2 {
			if key := object.Content[i]; !has[key.Value] {
				has[key.Value] = true
				out.Content = append(out.Content, key, object.Content[i+1])
			}
		}
	}
	return nil
}

func (x *expander) field(key, value, out *yaml.Node) error {
	for _, n := range []*yaml.Node{key, value} {
		c, err := x.expand(n)
		if err != nil {
			return err
		}
		out.Content = append(out.Content, c)
	}
	return nil
}

// mergedObjects returns the expanded objects of a merge key's value, which is one object or a list.
func (x *expander) mergedObjects(value *yaml.Node) ([]*yaml.Node, error) {
	expanded, err := x.expand(value)
	if err != nil {
		return nil, err
	}
	objects := []*yaml.Node{expanded}
	if expanded.Kind == yaml.SequenceNode {
		objects = expanded.Content
	}
	for _, o := range objects {
		if o.Kind != yaml.MappingNode {
			return nil, errors.New("map merge requires map or sequence of maps as the value")
		}
	}
	return objects, nil
}
