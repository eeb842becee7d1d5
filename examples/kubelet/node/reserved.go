package node

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	nodestatus "github.com/podwright/podwright/status/node"
)

// Reservations are what pods may not have of the machine, by the configuration.
type Reservations struct {
	fixed v1.ResourceList
	// memory and storage are thresholds of hard eviction: a share of the capacity where
	// percent is set, else an amount.
	memory, storage threshold
}

type threshold struct {
	amount  int64
	percent float64
}

func (t threshold) of(capacity int64) int64 {
	if t.percent > 0 {
		return int64(float64(capacity) * t.percent / 100)
	}
	return t.amount
}

// hardDefaults are the thresholds of hard eviction that concern reservations, where the
// configuration sets none.
func hardDefaults() map[string]string {
	return map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
}

// ParseReservations reads kubeReserved, systemReserved, and evictionHard, of which what is
// to stay available of memory and disk is not for pods either.
func ParseReservations(k *kubeletv1beta1.KubeletConfiguration) (Reservations, error) {
	r := Reservations{fixed: v1.ResourceList{}}
	var errs []error
	for field, list := range map[string]map[string]string{"kubeReserved": k.KubeReserved, "systemReserved": k.SystemReserved} {
		for name, text := range list {
			amount, err := resource.ParseQuantity(text)
			if err != nil || amount.Sign() < 0 {
				errs = append(errs, fmt.Errorf("%s[%s]: %q is not an amount", field, name, text))
				continue
			}
			sum := r.fixed[v1.ResourceName(name)].DeepCopy()
			sum.Add(amount)
			r.fixed[v1.ResourceName(name)] = sum
		}
	}
	hard := hardDefaults()
	if k.EvictionHard != nil {
		if k.MergeDefaultEvictionSettings == nil || !*k.MergeDefaultEvictionSettings {
			clear(hard)
		}
		maps.Copy(hard, k.EvictionHard)
	}
	var memory, storage error
	r.memory, memory = parseThreshold("memory.available", hard)
	r.storage, storage = parseThreshold("nodefs.available", hard)
	return r, errors.Join(append(errs, memory, storage)...)
}

func parseThreshold(signal string, hard map[string]string) (t threshold, err error) {
	text, ok := hard[signal]
	if !ok {
		return t, nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		t.percent, err = strconv.ParseFloat(number, 64)
		ok = err == nil && t.percent >= 0 && t.percent <= 100
		if !ok {
			return t, fmt.Errorf("evictionHard[%s]: %q is not a share within 0%% and 100%%", signal, text)
		}
		return t, nil
	}
	amount, err := resource.ParseQuantity(text)
	if err != nil || amount.Sign() < 0 {
		return t, fmt.Errorf("evictionHard[%s]: %q is neither an amount nor a share", signal, text)
	}
	t.amount = amount.Value()
	return t, nil
}

// Of is what is set aside of a machine.
func (r Reservations) Of(m *nodestatus.Machine) v1.ResourceList {
	list := r.fixed.DeepCopy()
	if list == nil {
		list = v1.ResourceList{}
	}
	add := func(name v1.ResourceName, amount int64) {
		if amount > 0 {
			sum := list[name].DeepCopy()
			sum.Add(*resource.NewQuantity(amount, resource.BinarySI))
			list[name] = sum
		}
	}
	add(v1.ResourceMemory, r.memory.of(m.Memory))
	add(v1.ResourceEphemeralStorage, r.storage.of(m.Storage))
	return list
}

// Check refuses reservations of more than a machine has. Storage that nobody has measured
// yet is not checked.
func (r Reservations) Check(m *nodestatus.Machine) error {
	has := nodestatus.Compute(nil, nodestatus.Facts{Machine: m}, nodestatus.SetMachine).Capacity
	var errs []error
	for name, reserved := range r.Of(m) {
		if capacity, ok := has[name]; ok && reserved.Cmp(capacity) > 0 {
			errs = append(errs, fmt.Errorf("kubeReserved, systemReserved, evictionHard: %s of %s are more than the %s that the machine has", &reserved, name, &capacity))
		}
	}
	return errors.Join(errs...)
}
