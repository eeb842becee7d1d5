package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// fieldAt finds a field of the configuration by its path in the file. ok is false if there is none
// or a pointer above it is nil.
func fieldAt(v reflect.Value, path string) (field reflect.Value, ok bool) {
	name, below, deeper := strings.Cut(path, ".")
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if tag != name {
			continue
		}
		if !deeper {
			return v.Field(i), true
		}
		return fieldAt(v.Field(i), below)
	}
	return v, false
}

// fieldType returns the type of the field at a path, without its pointer. The field must exist.
func fieldType(path string) reflect.Type {
	full := &kubeletv1beta1.KubeletConfiguration{}
	SetDefaults(full)
	field, ok := fieldAt(reflect.ValueOf(full), path)
	if !ok {
		return nil
	}
	if field.Kind() == reflect.Pointer {
		return field.Type().Elem()
	}
	return field.Type()
}

var (
	durationType = reflect.TypeFor[metav1.Duration]()
	flushType    = reflect.TypeFor[logsapi.TimeOrMetaDuration]()
)

// readValue parses the text of a flag as the value in a file.
func readValue(t reflect.Type, text, sign string) (any, error) {
	switch {
	case t == durationType || t == flushType:
		_, err := time.ParseDuration(text)
		return text, err
	case t.Kind() == reflect.Bool:
		return readSwitch(text)
	case t.Kind() == reflect.String:
		return text, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return list(text), nil
	case t.Kind() == reflect.Map:
		return pairs(t.Elem(), text, sign)
	case t.Kind() == reflect.Uint32:
		n, err := strconv.ParseUint(text, 10, 31)
		return float64(n), err
	default: // int32 and int64
		n, err := strconv.ParseInt(text, 10, t.Bits())
		return float64(n), err
	}
}

func readSwitch(text string) (any, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return nil, fmt.Errorf("%q is neither true nor false", text)
	}
	return on, nil
}

func list(text string) []any {
	out := []any{}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// pairs parses "key=value,key=value", with sign in place of "=".
func pairs(t reflect.Type, text, sign string) (any, error) {
	out := map[string]any{}
	for _, pair := range list(text) {
		key, value, ok := strings.Cut(pair.(string), sign)
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not key%svalue", pair, sign)
		}
		read, err := readValue(t, strings.TrimSpace(value), sign)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out[strings.TrimSpace(key)] = read
	}
	return out, nil
}

func showValue(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case metav1.Duration:
		return value.Duration.String()
	case logsapi.TimeOrMetaDuration:
		return value.Duration.Duration.String()
	case map[string][]string: // headers, whose values may be secret
		return joined(slices.Sorted(maps.Keys(value)), func(name string) string { return name + ":<masked>" })
	}
	switch v.Kind() {
	case reflect.Slice:
		out := make([]string, v.Len())
		for i := range out {
			out[i] = showElement(v.Index(i).Interface())
		}
		return strings.Join(out, ",")
	case reflect.Map:
		var out []string
		for _, key := range v.MapKeys() {
			out = append(out, fmt.Sprintf("%v=%v", key, v.MapIndex(key)))
		}
		slices.Sort(out)
		return strings.Join(out, ",")
	}
	return fmt.Sprint(v.Interface())
}

func showElement(value any) string {
	if taint, ok := value.(v1.Taint); ok {
		return taint.ToString()
	}
	return fmt.Sprint(value)
}
