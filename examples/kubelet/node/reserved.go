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

// Reservations are the configured parts of the machine that pods cannot use.
type Reservations struct {
	system, kube v1.ResourceList
	// cpus are the processors of reservedSystemCPUs.
	cpus CPUs
	// memory and storage are thresholds of hard eviction: a share of the capacity if percent is
	// set, else an amount.
	memory, storage threshold
}

type threshold struct {
	amount  int64
	percent float64
}

func (t threshold) of(capacity int64) int64 {
	if t.percent > 0 {
		return int64(float64(capacity) * float64(float32(t.percent)/100)) // rounds as the kubelet does, to the byte
	}
	return t.amount
}

// hardDefaults returns the default thresholds of hard eviction that reduce the resources for pods.
func hardDefaults() map[string]string {
	return map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
}

func reservable() []v1.ResourceName {
	return []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, cgroups.ResourcePids}
}

// ParseReservations reads kubeReserved, systemReserved, reservedSystemCPUs and evictionHard.
// reservedSystemCPUs replaces the CPU of the first two. The memory and disk thresholds of
// evictionHard are not available to pods either.
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

// System returns the resources reserved for the system.
func (r Reservations) System() v1.ResourceList { return r.system.DeepCopy() }

// Kube returns the resources reserved for the agent and the runtime.
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
			return t, fmt.Errorf("evictionHard[%s]: %q is not a percentage from 0%% to 100%%", signal, text)
		}
		return t, nil
	}
	amount, err := resource.ParseQuantity(text)
	if err != nil || amount.Sign() < 0 {
		return t, fmt.Errorf("evictionHard[%s]: %q is neither an amount nor a percentage", signal, text)
	}
	t.amount = amount.Value()
	return t, nil
}

// Of returns all reserved resources of a machine.
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

// Capacity returns the resources of a machine. It includes the number of processes,
// cgroups.ResourcePids, which the API does not have. It omits storage that was not measured.
func Capacity(m *nodestatus.Machine) v1.ResourceList {
	list := nodestatus.Compute(nil, nodestatus.Facts{Machine: m}, nodestatus.SetMachine).Capacity
	delete(list, v1.ResourcePods)
	if m.Pids > 0 {
		list[cgroups.ResourcePids] = *resource.NewQuantity(m.Pids, resource.DecimalSI)
	}
	return list
}

// Check returns an error if the reservations exceed the machine, or name processors that are not
// online.
func (r Reservations) Check(m *nodestatus.Machine, online CPUs) error {
	has, reserved := Capacity(m), r.Of(m)
	var errs []error
	for _, name := range reservable() {
		amount := reserved[name]
		if capacity, ok := has[name]; ok && amount.Cmp(capacity) > 0 {
			errs = append(errs, fmt.Errorf("kubeReserved, systemReserved, evictionHard: %s of %s exceed the machine's %s", &amount, name, &capacity))
		}
	}
	for _, cpu := range slices.Sorted(maps.Keys(r.cpus)) {
		if !online[cpu] {
			errs = append(errs, fmt.Errorf("reservedSystemCPUs: processor %d is not online", cpu))
		}
	}
	return errors.Join(errs...)
}
