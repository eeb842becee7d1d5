package emptydir

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// pageSize returns the size of huge pages for a medium: the size in its name, or the only size
// that the pod requests. It fails if the pod does not request that size.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	requested := map[string]resource.Quantity{}
	for name := range helper.PodRequests(pod, helper.PodResourcesOptions{}) {
		if text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			size, err := resource.ParseQuantity(text)
			if err != nil {
				return 0, fmt.Errorf("the pod's request for %q: %w", name, err)
			}
			requested[size.String()] = size
		}
	}
	sizes := strings.Join(slices.Sorted(maps.Keys(requested)), ", ")
	if medium == v1.StorageMediumHugePages {
		if len(requested) != 1 {
			return 0, fmt.Errorf("medium: %q: the pod must request huge pages of exactly one size: it requests %d (%s)", medium, len(requested), sizes)
		}
		q := requested[sizes]
		return q.Value(), nil
	}
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)))
	if err != nil {
		return 0, fmt.Errorf("medium: %q: %w", medium, err)
	}
	if _, ok := requested[size.String()]; !ok {
		return 0, fmt.Errorf("medium: %q: the pod must request huge pages of this size: it requests (%s)", medium, sizes)
	}
	return size.Value(), nil
}
