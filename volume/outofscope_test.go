package volume_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// kinds sets each field of a source in turn, and lists what is out of scope.
func kinds[T any](outOfScope func(*T) string) (out, in []string) {
	fields := reflect.TypeFor[T]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		var source T
		field := reflect.ValueOf(&source).Elem().Field(i)
		field.Set(reflect.New(field.Type().Elem()))
		switch outOfScope(&source) {
		case name:
			out = append(out, name)
		case "":
			in = append(in, name)
		}
	}
	return out, in
}

// Every kind that the API knows has been decided on.
func TestOutOfScope(t *testing.T) {
	out, in := kinds(volume.OutOfScope)
	require.Len(t, out, 19)
	require.ElementsMatch(t, []string{
		"hostPath", "emptyDir", "secret", "nfs", "persistentVolumeClaim", "downwardAPI", "configMap", "projected", "csi", "ephemeral", "image",
	}, in)
	out, in = kinds(volume.OutOfScopePersistent)
	require.NotContains(t, out, "gitRepo")
	require.ElementsMatch(t, []string{"hostPath", "nfs", "local", "csi"}, in)
	require.Empty(t, volume.OutOfScope(nil))
	require.Empty(t, volume.OutOfScope(&v1.VolumeSource{}))
}
