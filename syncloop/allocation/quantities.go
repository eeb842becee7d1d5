package allocation

import (
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxMilli is the largest cpu amount whose thousandths fit into an int64.
var maxMilli = *resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)

// maxBytes is the largest amount of other resources.
var maxBytes = *resource.NewQuantity(math.MaxInt64, resource.BinarySI)

func (r Resources) check() error {
	if r.PodLevelResources != nil {
		if err := checkAmounts("resources", *r.PodLevelResources); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.ContainerResources)) {
		if err := checkAmounts("container "+name+": resources", r.ContainerResources[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkAmounts(field string, r v1.ResourceRequirements) error {
	for _, list := range []struct {
		name    string
		amounts v1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			q, most := list.amounts[name], maxBytes
			if name == v1.ResourceCPU {
				most = maxMilli
			}
			switch {
			case q.Sign() < 0:
				return fmt.Errorf("%s.%s[%s]: %s is negative", field, list.name, name, q.String())
			case q.Cmp(most) > 0:
				return fmt.Errorf("%s.%s[%s]: %s must be at most %s", field, list.name, name, q.String(), most.String())
			}
		}
	}
	return nil
}
