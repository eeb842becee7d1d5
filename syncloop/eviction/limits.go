package eviction

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

// overLimit returns the pods that exceed limits of local storage, sorted by name. Unmeasured
// storage exceeds no limit. Critical pods are exempt, because an evicted static pod would not come
// back.
func overLimit(pods []*v1.Pod, u Usage, now time.Time) (out []Victim) {
	for _, pod := range pods {
		usage, ok := u.Pods[pod.UID]
		if !ok || podfacts.IsCritical(pod) {
			continue
		}
		signal, message := exceeded(pod, usage, u.Disks)
		if message != "" {
			out = append(out, Victim{Pod: pod, Signal: signal, GraceSeconds: hardGrace, Message: message, Time: now})
		}
	}
	slices.SortStableFunc(out, func(a, b Victim) int { return byIdentity(a.Pod, b.Pod) })
	return out
}

// exceeded returns the first limit that a pod exceeds, or an empty message.
func exceeded(pod *v1.Pod, u PodUsage, disks Disks) (Signal, string) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		limit := sizeLimit(volume)
		if limit == nil {
			continue
		}
		if used, ok := u.EmptyDirs[volume.Name]; ok && exceeds(used, *limit) {
			return EmptyDirLimit, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume.Name, limit.String())
		}
	}
	if limit, ok := podfacts.Limit(pod, v1.ResourceEphemeralStorage); ok {
		if used, measured := u.disk(parts{root: true, logs: true, volumes: true}, bytesOf); measured && exceeds(used, limit) {
			return PodStorageLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", &limit)
		}
	}
	counts := parts{root: disks != ImageDisk, logs: true} // the image filesystem has limits of its own
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		limit := c.Resources.Limits[v1.ResourceEphemeralStorage]
		if used, measured := u.Containers[c.Name].disk(counts, bytesOf); measured && exceeds(used, limit) {
			return ContainerStorageLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return "", ""
}

// LimitsOf reports which limits of local storage a pod has: emptyDirs for size limits of emptyDir
// volumes, which need only PodUsage.EmptyDirs; storage for limits of the pod and its containers,
// which need all of PodUsage except memory and processes.
func LimitsOf(pod *v1.Pod) (emptyDirs, storage bool) {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return sizeLimit(&v) != nil }), limitsStorage(pod)
}

func sizeLimit(v *v1.Volume) *resource.Quantity {
	if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
		return nil
	}
	return v.EmptyDir.SizeLimit
}

func limitsStorage(pod *v1.Pod) bool {
	has := func(r v1.ResourceRequirements) bool {
		_, ok := r.Limits[v1.ResourceEphemeralStorage]
		return ok
	}
	of := func(c v1.Container) bool { return has(c.Resources) }
	return pod.Spec.Resources != nil && has(*pod.Spec.Resources) || slices.ContainsFunc(pod.Spec.Containers, of) || slices.ContainsFunc(pod.Spec.InitContainers, of)
}

// exceeds reports whether used is above limit. A limit of zero is ignored. A limit may be larger than
// an int64.
func exceeds(used uint64, limit resource.Quantity) bool {
	return limit.Sign() > 0 && limit.CmpInt64(signed(used)) < 0
}
