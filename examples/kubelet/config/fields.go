package config

import (
	"encoding/json"
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

var configurationType = reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]()

// member returns the field of a structure with a JSON name, also from embedded structures.
func member(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case tag == name && name != "":
			return f, true
		case tag == "" && f.Anonymous:
			if below, ok := member(f.Type, name); ok {
				below.Index = append([]int{i}, below.Index...)
				return below, true
			}
		}
	}
	return reflect.StructField{}, false
}

// fieldAt finds a field of the configuration by its path in the file. ok is false if a pointer
// above it is nil.
func fieldAt(v reflect.Value, path string) (field reflect.Value, ok bool) {
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		f, ok := member(v.Type(), name)
		if !ok {
			return v, false
		}
		v = v.FieldByIndex(f.Index)
	}
	return v, true
}

// typeAt returns the type of the field at a path, without its pointer, or nil for unknown fields.
func typeAt(path string) reflect.Type {
	t := configurationType
	for name := range strings.SplitSeq(path, ".") {
		f, ok := member(t, name)
		if !ok {
			return nil
		}
		t = pointed(f.Type)
	}
	return t
}

func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isTree reports whether a type has fields of its own in the file.
func isTree(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func isEmpty(v reflect.Value) bool {
	return (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0
}

var (
	durationType = reflect.TypeFor[metav1.Duration]()
	flushType    = reflect.TypeFor[logsapi.TimeOrMetaDuration]()
)

func isDuration(t reflect.Type) bool {
	return t == durationType || t == flushType || t == reflect.TypeFor[time.Duration]()
}

func durationOf(v reflect.Value) time.Duration {
	switch value := v.Interface().(type) {
	case metav1.Duration:
		return value.Duration
	case logsapi.TimeOrMetaDuration:
		return value.Duration.Duration
	}
	return 0
}

// describe names the values of a type, for errors.
func describe(t reflect.Type) string {
	switch {
	case isDuration(t):
		return "a duration such as 10s or 5m"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map, isTree(t):
		return "a map"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Struct:
		return "a quantity such as 10Mi"
	}
	return "a whole number"
}

// readValue parses the text of a flag as the value in a file. want describes the allowed values.
func readValue(t reflect.Type, text, sign, want string) (value any, err error) {
	switch {
	case isDuration(t):
		_, err = time.ParseDuration(text)
		value = text
	case t.Kind() == reflect.Bool:
		value, err = strconv.ParseBool(text)
	case t.Kind() == reflect.String:
		return text, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return list(text), nil
	case t.Kind() == reflect.Map:
		return pairs(t.Elem(), text, sign)
	case t.Kind() == reflect.Uint32: // the JSON decoder reports numbers above the range
		value, err = strconv.ParseUint(text, 10, 31)
	default: // int, int32 and int64
		value, err = strconv.ParseInt(text, 10, t.Bits())
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not %s", text, want)
	}
	return value, nil
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
		read, err := readValue(t, strings.TrimSpace(value), sign, describe(t))
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
	if isDuration(v.Type()) {
		return durationOf(v).String()
	}
	switch value := v.Interface().(type) {
	case map[string][]string: // headers, whose values may be secret
		return joined(slices.Sorted(maps.Keys(value)), func(name string) string { return name + ":<masked>" })
	case fmt.Stringer:
		return value.String()
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

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
