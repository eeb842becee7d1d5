package sources

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/volume/content"
)

// DownwardAPI returns files with fields of the pod and resources of its containers.
// allocatable is what the node has for pods: the limit of a container that has none.
func DownwardAPI(pod *v1.Pod, items []v1.DownwardAPIVolumeFile, defaultMode *int32, allocatable v1.ResourceList) (content.Payload, error) {
	mode, err := modeOf("defaultMode", defaultMode)
	if err != nil {
		return nil, err
	}
	out := content.Payload{}
	for i := range items {
		f := content.File{Mode: mode}
		if items[i].Mode != nil {
			if f.Mode, err = modeOf(fmt.Sprintf("items[%d].mode", i), items[i].Mode); err != nil {
				return nil, err
			}
		}
		if err := content.CheckPath(items[i].Path); err != nil {
			return nil, fmt.Errorf("items[%d].path: %w", i, err)
		}
		text, err := value(pod, &items[i], allocatable)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		f.Data = []byte(text)
		out.Add(content.Payload{items[i].Path: f})
	}
	return out, nil
}

func value(pod *v1.Pod, item *v1.DownwardAPIVolumeFile, allocatable v1.ResourceList) (string, error) {
	switch {
	case item.FieldRef != nil:
		// What else variables can have changes, or is not known yet.
		if !strings.HasPrefix(item.FieldRef.FieldPath, "metadata.") {
			return "", fmt.Errorf("fieldRef.fieldPath: %.80q cannot be had in a volume", item.FieldRef.FieldPath)
		}
		return podfacts.FieldValue(pod, item.FieldRef.FieldPath, podfacts.Surroundings{})
	case item.ResourceFieldRef != nil:
		return podfacts.ResourceValue(pod, nil, item.ResourceFieldRef, allocatable)
	}
	return "", errors.New("neither fieldRef nor resourceFieldRef is set")
}
