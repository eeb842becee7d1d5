package projected

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume"
)

// downwardFiles returns files with fields of the pod and resources of its containers.
// allocatable has the limits of containers without limits.
func downwardFiles(pod *v1.Pod, items []v1.DownwardAPIVolumeFile, defaultMode *int32, allocatable v1.ResourceList) (payload, error) {
	mode, err := modeOf("defaultMode", defaultMode)
	if err != nil {
		return nil, err
	}
	out := payload{}
	for i := range items {
		f := payloadFile{Mode: mode}
		if items[i].Mode != nil {
			if f.Mode, err = modeOf(fmt.Sprintf("items[%d].mode", i), items[i].Mode); err != nil {
				return nil, err
			}
		}
		if err := checkPath(items[i].Path); err != nil {
			return nil, volume.AtField(fmt.Sprintf("items[%d].path", i), err)
		}
		field, text, err := value(pod, &items[i], allocatable)
		if err != nil {
			return nil, volume.AtField(fmt.Sprintf("items[%d].%s", i, field), err)
		}
		f.Data = []byte(text)
		out.add(payload{items[i].Path: f})
	}
	return out, nil
}

// value returns the content of a file and the field that selects it.
func value(pod *v1.Pod, item *v1.DownwardAPIVolumeFile, allocatable v1.ResourceList) (field, text string, err error) {
	switch {
	case item.FieldRef != nil:
		field = "fieldRef.fieldPath"
		// Other fields change, or have no value before the pod runs.
		if !strings.HasPrefix(item.FieldRef.FieldPath, "metadata.") {
			return field, "", fmt.Errorf("%.80q is not available in volumes", item.FieldRef.FieldPath)
		}
		text, err = podfacts.FieldValue(pod, item.FieldRef.FieldPath, podfacts.Surroundings{})
	case item.ResourceFieldRef != nil:
		field = "resourceFieldRef"
		text, err = podfacts.ResourceValue(pod, nil, item.ResourceFieldRef, allocatable)
	default:
		field, err = "fieldRef", errors.New("neither this nor resourceFieldRef is set")
	}
	return field, text, err
}
