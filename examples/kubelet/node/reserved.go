package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/cri/cgroups"
	nodestatus "github.com/podwright/podwright/status/node"
)

// Reservations are what pods may not have of the machine, by the configuration.
type Reservations struct {
	system, kube v1.ResourceList
	// cpus are those of reservedSystemCPUs.
	cpus CPUs
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
		return int64(float64(capacity) * float64(float32(t.percent)/100)) // to the byte what the API's other nodes report
	}
	return t.amount
}

// hardDefaults are the thresholds of hard eviction that concern reservations, where the
// configuration sets none.
func hardDefaults() map[string]string {
	return map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
}

// reservable are the resources of which something can be set aside.
func reservable() []v1.ResourceName {
	return []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, cgroups.ResourcePids}
}

// ParseReservations reads kubeReserved, systemReserved, reservedSystemCPUs, which stand for
// the CPU of both, and evictionHard, of which what is to stay available of memory and disk
// is not for pods either.
func ParseReservations(k *kubeletv1beta1.KubeletConfiguration) (r Reservations, err error) {
	var errs [5]error
	r.system, errs[0] = parseAmounts("systemReserved", k.SystemReserved)
	r.kube, errs[1] = parseAmounts("kubeReserved", k.KubeReserved)
	if k.ReservedSystemCPUs != "" {
		if r.cpus, errs[2] = parseCPUs(k.ReservedSystemCPUs); errs[2] != nil {
			errs[2] = fmt.Errorf("reservedSystemCPUs: %w", errs[2])
		}
		delete(r.kube, v1.ResourceCPU)
		r.system[v1.ResourceCPU] = *resource.NewQuantity(int64(len(r.cpus)), resource.DecimalSI)
	}
	hard := hardDefaults()
	if k.EvictionHard != nil {
		if k.MergeDefaultEvictionSettings == nil || !*k.MergeDefaultEvictionSettings {
			clear(hard)
		}
		maps.Copy(hard, k.EvictionHard)
	}
	r.memory, errs[3] = parseThreshold("memory.available", hard)
	r.storage, errs[4] = parseThreshold("nodefs.available", hard)
	return r, errors.Join(errs[:]...)
}

func parseAmounts(field string, texts map[string]string) (v1.ResourceList, error) {
	list := v1.ResourceList{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		amount, err := resource.ParseQuantity(texts[name])
		switch {
		case !slices.Contains(reservable(), v1.ResourceName(name)):
			errs = append(errs, fmt.Errorf("%s[%s]: only cpu, memory, ephemeral-storage and pid can be reserved", field, name))
		case err != nil || amount.Sign() < 0:
			errs = append(errs, fmt.Errorf("%s[%s]: %q is not an amount", field, name, texts[name]))
		default:
			list[v1.ResourceName(name)] = amount
		}
	}
	return list, errors.Join(errs...)
}

// System is what the system keeps, Kube what agent and runtime keep.
func (r Reservations) System() v1.ResourceList { return r.system.DeepCopy() }

// Kube is what agent and runtime keep.
func (r Reservations) Kube() v1.ResourceList { return r.kube.DeepCopy() }

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
	list := v1.ResourceList{}
	add := func(name v1.ResourceName, amount resource.Quantity) {
		if amount.Sign() > 0 {
			sum := list[name].DeepCopy()
			sum.Add(amount)
			list[name] = sum
		}
	}
	for _, fixed := range []v1.ResourceList{r.system, r.kube} {
		for name, amount := range fixed {
			add(name, amount)
		}
	}
	add(v1.ResourceMemory, *resource.NewQuantity(r.memory.of(m.Memory), resource.BinarySI))
	add(v1.ResourceEphemeralStorage, *resource.NewQuantity(r.storage.of(m.Storage), resource.BinarySI))
	return list
}

// Capacity is what a machine has, with its processes, of which the API does not speak: they
// are cgroups.ResourcePids. Storage that nobody has measured yet is not in it.
func Capacity(m *nodestatus.Machine) v1.ResourceList {
	list := nodestatus.Compute(nil, nodestatus.Facts{Machine: m}, nodestatus.SetMachine).Capacity
	delete(list, v1.ResourcePods)
	if m.Pids > 0 {
		list[cgroups.ResourcePids] = *resource.NewQuantity(m.Pids, resource.DecimalSI)
	}
	return list
}

// Check refuses reservations of more than a machine has, and of processors that are not online.
func (r Reservations) Check(m *nodestatus.Machine, online CPUs) error {
	has, reserved := Capacity(m), r.Of(m)
	var errs []error
	for _, name := range reservable() {
		amount := reserved[name]
		if capacity, ok := has[name]; ok && amount.Cmp(capacity) > 0 {
			errs = append(errs, fmt.Errorf("kubeReserved, systemReserved, evictionHard: %s of %s are more than the %s that the machine has", &amount, name, &capacity))
		}
	}
	for _, cpu := range slices.Sorted(maps.Keys(r.cpus)) {
		if !online[cpu] {
			errs = append(errs, fmt.Errorf("reservedSystemCPUs: the machine has no processor %d that is online", cpu))
		}
	}
	return errors.Join(errs...)
}
