package volume

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// outOfScope are the kinds of volumes, as their fields are called, that have no plugin
// here and get none: what a CSI driver does today, or is too dangerous to do at all.
var outOfScope = []string{
	"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flexVolume", "flocker",
	"gcePersistentDisk", "gitRepo", "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume", "quobyte",
	"rbd", "scaleIO", "storageos", "vsphereVolume",
}

// OutOfScope names the kind of a volume that no plugin of this module will ever support,
// such as "gitRepo" or "iscsi"; "" means that it is none of these. A plugin of a
// consumer's own may support it nevertheless.
func OutOfScope(source *v1.VolumeSource) string { return setField(source) }

// OutOfScopePersistent is OutOfScope for a PersistentVolume.
func OutOfScopePersistent(source *v1.PersistentVolumeSource) string { return setField(source) }

// setField is the name of the first field of a source that is set and out of scope.
func setField[T any](source *T) string {
	if source == nil {
		return ""
	}
	v := reflect.ValueOf(source).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if slices.Contains(outOfScope, name) && !v.Field(i).IsNil() {
			return name
		}
	}
	return ""
}
