package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/yamlmerge"
)

const (
	apiVersion = "kubelet.config.k8s.io/v1beta1"
	kind       = "KubeletConfiguration"
)

func readFields(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if data, err = yamlmerge.Expand(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := Parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for _, field := range pathFields {
		absolute(fields, field, filepath.Dir(path))
	}
	return fields, nil
}

func decode(fields map[string]any) (*kubeletv1beta1.KubeletConfiguration, error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	cfg := &kubeletv1beta1.KubeletConfiguration{}
	return cfg, json.Unmarshal(data, cfg)
}

// pathFields are the fields with paths as values. Each entry is a path of field names.
var pathFields = [][]string{
	{"staticPodPath"}, {"podLogsDir"}, {"resolvConf"}, {"tlsCertFile"}, {"tlsPrivateKeyFile"}, {"authentication", "x509", "clientCAFile"},
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

// Parse decodes a configuration file strictly. Unknown and duplicate fields are errors, and so are
// fields that need behaviour which this kubelet lacks. The error lists all such fields.
func Parse(data []byte) (*kubeletv1beta1.KubeletConfiguration, error) {
	cfg := &kubeletv1beta1.KubeletConfiguration{}
	if err := yaml.UnmarshalStrict(data, cfg); err != nil {
		return nil, byField(data, err)
	}
	if cfg.APIVersion != apiVersion || cfg.Kind != kind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %s, %s", cfg.APIVersion, cfg.Kind, apiVersion, kind)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	return cfg, errors.Join(unsupported("", fields)...)
}

// byField returns one error for each field that cannot be decoded. The decoder's error names only
// one field, or none.
func byField(data []byte, whole error) error {
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return plain(err)
	}
	var errs []error
	for _, name := range sortedKeys(fields) {
		one, err := json.Marshal(map[string]any{name: fields[name]})
		if err == nil {
			err = yaml.UnmarshalStrict(one, &kubeletv1beta1.KubeletConfiguration{})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, plain(err)))
		}
	}
	if len(errs) == 0 {
		return plain(whole)
	}
	return errors.Join(errs...)
}

// plain removes the decoder's own steps from an error text.
func plain(err error) error {
	text := err.Error()
	for _, step := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: "} {
		text = strings.TrimPrefix(text, step)
	}
	return errors.New(text)
}

// unsupported returns an error for each value in the file that has no effect here, unless it is
// zero or the default.
func unsupported(prefix string, fields map[string]any) []error {
	var errs []error
	for _, name := range sortedKeys(fields) {
		path, value := prefix+name, fields[name]
		if honoured[path] {
			continue
		}
		if isZero(value) || isDefault(path, value) {
			continue
		}
		if below, ok := value.(map[string]any); ok && hasFieldsBelow(path) {
			errs = append(errs, unsupported(path+".", below)...)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %s asks for behaviour that this kubelet does not have%s", path, asJSON(value), lack(path)))
	}
	return errs
}

// hasFieldsBelow distinguishes structures from free-form maps such as evictionHard.
func hasFieldsBelow(path string) bool {
	below := func(known string) bool { return strings.HasPrefix(known, path+".") }
	for known := range defaults {
		if below(known) {
			return true
		}
	}
	for known := range honoured {
		if below(known) {
			return true
		}
	}
	return false
}

func isDefault(path string, value any) bool {
	text, ok := defaults[path]
	if !ok {
		return false
	}
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		return false
	}
	return reflect.DeepEqual(value, want) || sameDuration(value, want)
}

// sameDuration reports whether two texts are equal durations, such as "2m" and "2m0s".
func sameDuration(a, b any) bool {
	x, okX := a.(string)
	y, okY := b.(string)
	if !okX || !okY {
		return false
	}
	dx, errX := time.ParseDuration(x)
	dy, errY := time.ParseDuration(y)
	return errX == nil && errY == nil && dx == dy
}

func isZero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		d, err := time.ParseDuration(v)
		return v == "" || err == nil && d == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, below := range v {
			if !isZero(below) {
				return false
			}
		}
		return true
	}
	return false
}

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
