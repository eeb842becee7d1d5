package status

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/status/internal/podstatus"
)

// filled returns a status in which every field has a value that depends on n.
func filled(n int) *v1.PodStatus {
	s := &v1.PodStatus{}
	fill(reflect.ValueOf(s).Elem(), n)
	return s
}

func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(now.Add(time.Duration(n) * time.Hour))))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(int64(n), resource.DecimalSI)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", n))
	case reflect.Bool:
		v.SetBool(n%2 == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, n)
		v.SetMapIndex(reflect.ValueOf("cpu").Convert(v.Type().Key()), value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic(v.Kind())
	}
}

// leaves calls visit for every value of a status that can change alone, with its path and a
// function that changes it.
func leaves(v reflect.Value, path string, visit func(path string, change func())) {
	switch v.Interface().(type) {
	case metav1.Time, resource.Quantity:
		visit(path, func() { fill(v, 4) })
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		visit(path+" nil", func() { v.SetZero() })
		leaves(v.Elem(), path, visit)
	case reflect.Slice:
		visit(path+" empty", func() { v.SetZero() })
		leaves(v.Index(0), path, visit)
	case reflect.Map:
		visit(path+" empty", func() { v.SetZero() })
		visit(path, func() { fill(v, 4) })
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	default:
		visit(path, func() { fill(v, 4) })
	}
}

// T25, 6.2: Equal compares every field except those listed here. A field that a later version of
// the API adds fails the test until it is handled.
func TestEqual(t *testing.T) {
	ignored := []string{
		".Conditions.LastProbeTime", ".Conditions.LastTransitionTime", ".Conditions.ObservedGeneration",
		".NominatedNodeName", ".ResourceClaimStatuses", ".ExtendedResourceClaimStatus", ".NodeAllocatableResourceClaimStatuses",
	}
	whole := func() *v1.PodStatus {
		s := filled(3)
		s.Conditions[0].Type = v1.PodReady
		return s
	}
	require.True(t, podstatus.Equal(whole(), whole()))
	count := 0
	leaves(reflect.ValueOf(whole()).Elem(), "", func(path string, _ func()) {
		count++
		changed := whole()
		var apply func()
		leaves(reflect.ValueOf(changed).Elem(), "", func(p string, change func()) {
			if p == path {
				apply = change
			}
		})
		apply()
		want := false
		for _, prefix := range ignored {
			want = want || strings.HasPrefix(path, prefix)
		}
		require.False(t, equality.Semantic.DeepEqual(whole(), changed), "%s was not changed", path)
		require.Equal(t, want, podstatus.Equal(whole(), changed), path)
		require.Equal(t, want, podstatus.Equal(changed, whole()), path)
	})
	require.Greater(t, count, 100)
}

func TestEqualIgnoresForeignConditions(t *testing.T) {
	mine, foreign, disrupted := is(v1.PodReady, v1.ConditionTrue), is("example.com/gate", v1.ConditionTrue), is(v1.DisruptionTarget, v1.ConditionTrue)
	require.True(t, podstatus.Equal(withConditions(mine), withConditions(foreign, mine)))
	require.False(t, podstatus.Equal(withConditions(mine), withConditions()), "an own condition is missing")
	require.False(t, podstatus.Equal(withConditions(), withConditions(mine)))
	require.False(t, podstatus.Equal(withConditions(mine), withConditions(mine, disrupted)), "DisruptionTarget counts as an own condition")
	require.True(t, podstatus.Equal(withConditions(mine, disrupted), withConditions(disrupted, mine)), "the order is ignored")
	a, b := &v1.PodStatus{}, &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{}, Conditions: []v1.PodCondition{}}
	require.True(t, podstatus.Equal(a, b))
	a.AllocatedResources, b.AllocatedResources = list("1", ""), list("1000m", "")
	require.True(t, podstatus.Equal(a, b), "the notation of amounts is ignored")
}
