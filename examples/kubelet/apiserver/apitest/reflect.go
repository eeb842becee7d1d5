package apitest

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
)

func newLike(obj Object) Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(Object)
}

func copyField(to, from Object, name string) error {
	t, f := reflect.ValueOf(to).Elem().FieldByName(name), reflect.ValueOf(from).Elem().FieldByName(name)
	if !t.IsValid() || !f.IsValid() {
		return fmt.Errorf("a %T has no %s", to, name)
	}
	t.Set(f)
	return nil
}

func same(a, b Object) bool { return equality.Semantic.DeepEqual(a, b) }
