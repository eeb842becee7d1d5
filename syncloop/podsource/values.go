//lint:file-ignore SA1019 The module behind this package is no direct requirement of ours.

package podsource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
	yamlv3 "sigs.k8s.io/yaml/goyaml.v3"
)

// checkValues refuses values that do not fit the fields of a pod, with their paths. A decoder's error
// often lacks the path, and parsing or comparing some quantities takes minutes. The decoder
// reports unknown fields.
func checkValues(manifest []byte) error {
	text, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return cleanError(err)
	}
	var root any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a float64 cannot represent all integers
	if err := d.Decode(&root); err != nil {
		return cleanError(err)
	}
	var c checker
	c.value(root, reflect.TypeFor[v1.Pod](), nil)
	return joinErrors(c.errs)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	unmarshaler  = reflect.TypeFor[json.Unmarshaler]()
)

func (c *checker) value(value any, t reflect.Type, at *field.Path) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	switch {
	case value == nil:
	case t == quantityType:
		c.quantity(value, at)
	case reflect.PointerTo(t).Implements(unmarshaler): // times, and ports as names or numbers
		c.leaf(value, t, at)
	case t.Kind() == reflect.Struct && isObject:
		c.structFields(object, t, at)
	case t.Kind() == reflect.Map && isObject:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			c.value(object[key], t.Elem(), at.Key(key))
		}
	case t.Kind() == reflect.Slice && isList:
		for i, item := range list {
			c.value(item, t.Elem(), at.Index(i))
		}
	default:
		c.leaf(value, t, at)
	}
}

func (c *checker) structFields(object map[string]any, t reflect.Type, at *field.Path) {
	for i := range t.NumField() {
		known := t.Field(i)
		name := jsonName(known)
		if name == "" && known.Anonymous {
			c.structFields(object, known.Type, at)
			continue
		}
		if value, ok := object[name]; ok {
			c.value(value, known.Type, at.Child(name))
		}
	}
}

func (c *checker) leaf(value any, t reflect.Type, at *field.Path) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		c.invalid(at, shortened(value), typeError(err, t))
	}
}

func typeError(err error, t reflect.Type) string {
	if _, ok := err.(*json.UnmarshalTypeError); ok {
		return "must be " + typeName(t)
	}
	return err.Error()
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(unmarshaler) {
			return "text"
		}
		return "an object"
	case reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	default:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	}
}

func shortened(value any) any {
	switch v := value.(type) {
	case map[string]any, []any:
		return field.OmitValueType{}
	case string:
		return v[:min(len(v), 64)]
	default:
		return value
	}
}

// shortQuantity matches quantities that are fast to parse: without hundreds of digits or a large
// exponent.
var shortQuantity = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})$`)

// quantity refuses invalid and negative quantities, and those above an int64, in units or in
// thousandths of a cpu.
func (c *checker) quantity(value any, at *field.Path) {
	refuse := func(why string) { c.invalid(at, shortened(value), why) }
	text, ok := value.(string)
	if number, isNumber := value.(json.Number); isNumber {
		text, ok = number.String(), true
	}
	most := resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	if strings.HasSuffix(at.String(), "["+string(v1.ResourceCPU)+"]") {
		most = resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
	}
	text = strings.TrimSpace(text)
	if ok && hugeQuantity.MatchString(text) {
		refuse("must be at most " + most.String())
		return
	}
	q, err := resource.Quantity{}, error(nil)
	if ok = ok && shortQuantity.MatchString(text); ok {
		q, err = resource.ParseQuantity(text)
	}
	switch {
	case !ok || err != nil:
		refuse("must be a quantity such as 100m or 64Mi")
	case q.Sign() < 0:
		refuse("must not be negative")
	case q.Cmp(*most) > 0:
		refuse("must be at most " + most.String())
	}
}

// hugeQuantity matches quantities that are too large because of their exponent.
var hugeQuantity = regexp.MustCompile(`^\+?[0-9.]*[1-9][0-9.]*[eE]\+?0*[1-9][0-9]{2,}$`)

// notFinite returns an error with the path of a YAML number that JSON cannot represent, or nil.
func notFinite(manifest []byte) error {
	var root yamlv3.Node
	if yamlv3.Unmarshal(manifest, &root) != nil {
		return nil
	}
	if at := findNotFinite(&root, nil); at != nil {
		return fmt.Errorf("%s: must be a finite number", at)
	}
	return nil
}

func findNotFinite(n *yamlv3.Node, at *field.Path) *field.Path {
	if text := strings.ToLower(strings.TrimLeft(n.Value, "+-")); n.ShortTag() == "!!float" && (text == ".inf" || text == ".nan") {
		return at
	}
	for i, child := range n.Content {
		below := at
		switch {
		case n.Kind == yamlv3.MappingNode && i%2 == 0:
			continue
		case n.Kind == yamlv3.MappingNode:
			below = at.Child(n.Content[i-1].Value)
		case n.Kind == yamlv3.SequenceNode:
			below = at.Index(i)
		}
		if found := findNotFinite(child, below); found != nil {
			return found
		}
	}
	return nil
}
