package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/yamlmerge"
)

const (
	apiVersion = "kubelet.config.k8s.io/v1beta1"
	kind       = "KubeletConfiguration"
)

// reader merges configuration files. It ignores unknown fields with a warning, because the versions
// of kubelet and tools differ.
type reader struct {
	fields   map[string]any
	warnings []string
}

// read merges a file, which is a complete KubeletConfiguration. Its error lists all invalid fields.
func (r *reader) read(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
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
	var document yamlnodes.Node // has the line of each field
	if err := yamlnodes.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c := checker{path: path, reader: r}
	c.check(document.Content[0], fields, configurationType, "")
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
	path   string
	reader *reader
	errs   []error
}

// at returns the place of a node for messages.
func (c *checker) at(node *yamlnodes.Node, field string) string {
	return fmt.Sprintf("%s:%d: %s", c.path, node.Line, field)
}

func (c *checker) warn(node *yamlnodes.Node, field, text string) {
	c.reader.warnings = append(c.reader.warnings, c.at(node, field)+": "+text)
}

// check checks the fields of a map against a structure. It removes unknown ones.
func (c *checker) check(node *yamlnodes.Node, fields map[string]any, t reflect.Type, prefix string) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if value.Kind == yamlnodes.AliasNode {
			value = value.Alias
		}
		name := key.Value
		path := prefix + name
		if name == "<<" { // a YAML merge
			continue
		}
		if seen[name] {
			c.warn(key, path, "set twice; the last value counts")
			continue
		}
		seen[name] = true
		f, ok := member(t, name)
		if !ok {
			c.unknown(key, path)
			delete(fields, name)
			continue
		}
		c.value(value, fields[name], pointed(f.Type), path)
	}
}

func (c *checker) unknown(key *yamlnodes.Node, path string) {
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
				c.value(node.Content[i], one, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
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
