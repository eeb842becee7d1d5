package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/yamlmerge"
)

const (
	apiVersion = "kubelet.config.k8s.io/v1beta1"
	kind       = "KubeletConfiguration"
	// maxSize bounds a configuration file, in bytes, and maxWarnings the warnings of one.
	maxSize, maxWarnings = 10 << 20, 50
)

// reader merges configuration files. It ignores unknown fields with a warning, because the versions
// of kubelet and tools differ.
type reader struct {
	fields   map[string]any
	warnings []string
}

// load returns the content of a configuration file. It may be a pipe, such as --config=<(command).
func load(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: has more bytes than the limit of %d", path, maxSize)
	}
	return data, err
}

// loadDropIn returns the content of a drop-in. It must be a regular file: the start would wait for a
// pipe without a writer.
func loadDropIn(path string) ([]byte, error) {
	r := fs.Reader{MaxSize: maxSize}.Read(path, fs.Stamp{})
	switch {
	case r.Vanished:
		return nil, fmt.Errorf("%s: does not exist", path)
	case r.Problem != "":
		return nil, fmt.Errorf("%s: %s", path, r.Problem)
	}
	return r.Data, nil
}

// read merges the content of a file, which is a complete KubeletConfiguration. Its error lists all
// invalid fields.
func (r *reader) read(path string, data []byte) error {
	expanded, err := yamlmerge.Expand(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(expanded, &fields); err != nil {
		return fmt.Errorf("%s: %s", path, plain(err))
	}
	if fields["apiVersion"] != apiVersion || fields["kind"] != kind {
		return fmt.Errorf("%s: apiVersion %s, kind %s: want %s, %s", path, asJSON(fields["apiVersion"]), asJSON(fields["kind"]), apiVersion, kind)
	}
	var document, second yamlnodes.Node // have the line of each field
	documents := yamlnodes.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&document); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c := checker{path: path}
	c.check(document.Content[0], fields, configurationType, "")
	if err := documents.Decode(&second); err == nil && second.Content[0].ShortTag() != "!!null" {
		c.warn(second.Content[0], "", "a second YAML document, ignored")
	}
	r.warnings = append(r.warnings, c.warnings...)
	if c.more > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: %d more warnings", path, c.more))
	}
	if len(c.errs) > 0 {
		return errors.Join(c.errs...)
	}
	for _, s := range settings() {
		if s.isPath && s.field != "" {
			absolute(fields, strings.Split(s.field, "."), filepath.Dir(path))
		}
	}
	merge(r.fields, fields)
	return nil
}

// checker compares a file with the type of the configuration.
type checker struct {
	path     string
	warnings []string
	more     int // warnings beyond maxWarnings
	errs     []error
}

// at returns the place of a node for messages.
func (c *checker) at(node *yamlnodes.Node, field string) string {
	place := fmt.Sprintf("%s:%d", c.path, node.Line)
	if field != "" {
		place += ": " + field
	}
	return place
}

func (c *checker) warn(node *yamlnodes.Node, field, text string) {
	if len(c.warnings) == maxWarnings {
		c.more++
		return
	}
	c.warnings = append(c.warnings, c.at(node, field)+": "+text)
}

// check checks the fields of a map against a structure, with the fields of merge keys. It removes
// unknown ones: the decoder would accept them in another case.
func (c *checker) check(node *yamlnodes.Node, fields map[string]any, t reflect.Type, prefix string) {
	seen := map[string]bool{}
	c.members(node, fields, t, prefix, seen)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !seen[name] { // written in another way, such as !!binary
			c.unknown(node, prefix+name)
			delete(fields, name)
		}
	}
}

// members checks the members of one node of a map that are not in seen, and adds them.
func (c *checker) members(node *yamlnodes.Node, fields map[string]any, t reflect.Type, prefix string, seen map[string]bool) {
	own, merged := map[string]bool{}, []*yamlnodes.Node(nil)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := target(node.Content[i]), target(node.Content[i+1])
		name := key.Value
		path := prefix + name
		switch {
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			continue
		case own[name]:
			c.warn(key, path, "set twice; the last value counts")
			continue
		}
		own[name] = true
		if seen[name] { // overridden
			continue
		}
		seen[name] = true
		f, ok := member(t, name)
		if !ok {
			c.unknown(node.Content[i], path)
			delete(fields, name)
			continue
		}
		c.value(value, fields[name], pointed(f.Type), path)
	}
	for _, value := range slices.Backward(merged) {
		objects := []*yamlnodes.Node{value}
		if value.Kind == yamlnodes.SequenceNode {
			objects = value.Content
		}
		for _, object := range objects {
			c.members(target(object), fields, t, prefix, seen)
		}
	}
}

// target returns the node that an alias refers to, or the node itself.
func target(node *yamlnodes.Node) *yamlnodes.Node {
	if node.Kind == yamlnodes.AliasNode {
		return node.Alias
	}
	return node
}

func (c *checker) unknown(key *yamlnodes.Node, path string) {
	if len(c.warnings) == maxWarnings {
		c.more++
		return
	}
	var known []string
	for _, s := range settings() {
		if s.field != "" {
			known = append(known, s.field)
		}
	}
	text := "unknown field, ignored"
	if similar := nearest(path, known); similar != "" {
		text += "; did you mean " + similar + "?"
	}
	c.warn(key, path, text)
}

func (c *checker) value(node *yamlnodes.Node, value any, t reflect.Type, path string) {
	switch below := value.(type) {
	case map[string]any:
		if isTree(t) {
			c.check(node, below, t, path+".")
			return
		}
	case []any:
		if t.Kind() == reflect.Slice && isTree(t.Elem()) && len(below) == len(node.Content) {
			for i, one := range below {
				c.value(target(node.Content[i]), one, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
			return
		}
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", c.at(node, path), wrong(value, t, path)))
	}
}

// wrong describes a value of the wrong type. Only numbers and words of ordinary fields are shown,
// because headers and URLs may be secret.
func wrong(value any, t reflect.Type, path string) string {
	want := describe(t)
	for _, s := range settings() {
		if s.field == path {
			want = s.wanted()
		}
	}
	switch value.(type) {
	case map[string]any, []any:
		return "is not " + want
	}
	if strings.HasPrefix(path, "staticPodURL") {
		return "is not " + want
	}
	return asJSON(value) + " is not " + want
}

func decode(fields map[string]any, into *kubeletv1beta1.KubeletConfiguration) error {
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func absolute(fields map[string]any, field []string, dir string) {
	name := field[0]
	if len(field) > 1 {
		if below, ok := fields[name].(map[string]any); ok {
			absolute(below, field[1:], dir)
		}
		return
	}
	if path, ok := fields[name].(string); ok && path != "" && !filepath.IsAbs(path) {
		fields[name] = filepath.Join(dir, path)
	}
}

// plain removes the decoder's own steps from an error text.
func plain(err error) string {
	return strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
}
