package pods

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/pleg"
)

// What this file does is pure: from the runtime's messages to the vocabulary of
// package pleg. Getters of generated messages accept nil throughout.

func toState(s runtimeapi.ContainerState) pleg.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return pleg.StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return pleg.StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return pleg.StateExited
	default:
		return pleg.StateUnknown
	}
}

func toSandboxState(s runtimeapi.PodSandboxState) pleg.SandboxState {
	switch s {
	case runtimeapi.PodSandboxState_SANDBOX_READY:
		return pleg.SandboxReady
	case runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
		return pleg.SandboxNotReady
	default:
		return pleg.SandboxUnknown
	}
}

// unixTime converts the runtime's nanoseconds; 0 is no time.
func unixTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// sandboxIdentity tells which pod a listed sandbox belongs to. Sandboxes that no
// kubelet made, or that lack metadata, belong to none.
func sandboxIdentity(sb *runtimeapi.PodSandbox) (podIdentity, bool) {
	meta, uid := sb.GetMetadata(), sb.GetLabels()[LabelPodUID]
	if meta == nil || uid == "" {
		return podIdentity{}, false
	}
	return podIdentity{UID: types.UID(uid), Name: meta.Name, Namespace: meta.Namespace}, true
}

// containerIdentity is the same for a listed container.
func containerIdentity(c *runtimeapi.Container) (podIdentity, string, bool) {
	uid, name := c.GetLabels()[LabelPodUID], c.GetLabels()[LabelContainerName]
	if c.GetMetadata() == nil || c.GetImage() == nil || uid == "" || name == "" {
		return podIdentity{}, "", false
	}
	p := podIdentity{UID: types.UID(uid), Name: c.Labels[LabelPodName], Namespace: c.Labels[LabelPodNamespace]}
	return p, name, true
}

// sortSandboxes orders newest first: by attempt, then creation, then ID.
func sortSandboxes(list []*runtimeapi.PodSandbox) {
	slices.SortFunc(list, func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(
			cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
			cmp.Compare(b.CreatedAt, a.CreatedAt),
			cmp.Compare(a.Id, b.Id),
		)
	})
}

// sortContainers orders newest first: by attempt, then creation, then ID. The
// instances of one container are told apart by attempts alone, so that a clock that
// was set back makes no old one the newest.
func sortContainers(list []*runtimeapi.Container) {
	slices.SortFunc(list, func(a, b *runtimeapi.Container) int {
		return cmp.Or(
			cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
			cmp.Compare(b.CreatedAt, a.CreatedAt),
			cmp.Compare(a.Id, b.Id),
		)
	})
}

// groupPods makes pods of the two lists, the pod created last first.
func groupPods(runtimeName string, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) []pleg.ObservedPod {
	sortSandboxes(sandboxes)
	sortContainers(containers)
	byUID := map[types.UID]*pleg.ObservedPod{}
	pod := func(p podIdentity, created int64) *pleg.ObservedPod {
		o := byUID[p.UID]
		if o == nil {
			o = &pleg.ObservedPod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
			byUID[p.UID] = o
		}
		if at := unixTime(created); at.After(o.CreatedAt) {
			o.CreatedAt = at
		}
		return o
	}
	for _, sb := range sandboxes {
		if p, ok := sandboxIdentity(sb); ok {
			o := pod(p, sb.CreatedAt)
			o.Sandboxes = append(o.Sandboxes, pleg.ObservedSandbox{ID: sb.Id, State: toSandboxState(sb.State)})
		}
	}
	for _, c := range containers {
		if p, name, ok := containerIdentity(c); ok {
			o := pod(p, c.CreatedAt)
			id := pleg.ContainerID{Runtime: runtimeName, ID: c.Id}
			o.Containers = append(o.Containers, pleg.ObservedContainer{ID: id, Name: name, State: toState(c.State)})
		}
	}
	out := make([]pleg.ObservedPod, 0, len(byUID))
	for _, o := range byUID {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b pleg.ObservedPod) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func toSandbox(s *runtimeapi.PodSandboxStatus) pleg.Sandbox {
	return pleg.Sandbox{
		ID:               s.GetId(),
		State:            toSandboxState(s.GetState()),
		Attempt:          s.GetMetadata().GetAttempt(),
		CreatedAt:        unixTime(s.GetCreatedAt()),
		HostNetwork:      s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		HasNetworkStatus: s.GetNetwork() != nil,
		IPs:              sandboxIPs(s.GetNetwork()),
	}
}

// sandboxIPs returns the addresses, the primary one first. If any of them is not
// an address at all, none is to be trusted.
func sandboxIPs(network *runtimeapi.PodSandboxNetworkStatus) []string {
	if network.GetIp() == "" {
		return nil
	}
	out := []string{network.Ip}
	for _, additional := range network.AdditionalIps {
		out = append(out, additional.GetIp())
	}
	for _, ip := range out {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil
		}
	}
	return out
}

func toContainerStatus(runtimeName, sandboxID string, s *runtimeapi.ContainerStatus) pleg.ContainerStatus {
	out := pleg.ContainerStatus{
		ID:           pleg.ContainerID{Runtime: runtimeName, ID: s.Id},
		Name:         s.GetLabels()[LabelContainerName],
		SandboxID:    sandboxID,
		State:        toState(s.State),
		CreatedAt:    unixTime(s.CreatedAt),
		Image:        s.GetImage().GetImage(),
		ImageID:      cmp.Or(s.ImageId, s.ImageRef),
		ImageRef:     s.ImageRef,
		Hash:         parseHash(s.Annotations[AnnotationHash]),
		RestartCount: annotatedInt(s.Annotations, AnnotationRestartCount),
		LogPath:      s.LogPath,
		Resources:    toResources(s.GetResources().GetLinux()),
		User:         toUser(s.GetUser().GetLinux()),
	}
	if s.StopSignal != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		out.StopSignal = signalName(s.StopSignal)
	}
	if out.State != pleg.StateCreated {
		out.StartedAt = unixTime(s.StartedAt)
	}
	if out.State == pleg.StateExited {
		out.FinishedAt = unixTime(s.FinishedAt)
		out.ExitCode, out.Reason, out.Message = s.ExitCode, s.Reason, s.Message
	}
	return out
}

// signalName is the name that a pod's spec uses: SIGTERM, SIGRTMIN+1.
func signalName(s runtimeapi.Signal) string {
	name := strings.TrimPrefix(s.String(), "SIGNAL_")
	return strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(name)
}

func toUser(u *runtimeapi.LinuxContainerUser) *pleg.ContainerUser {
	if u == nil {
		return nil
	}
	return &pleg.ContainerUser{UID: u.Uid, GID: u.Gid, SupplementalGroups: slices.Clone(u.SupplementalGroups)}
}

// toResources reads back what containerResources wrote.
func toResources(r *runtimeapi.LinuxContainerResources) *pleg.ContainerResources {
	if r == nil {
		return nil
	}
	out := &pleg.ContainerResources{}
	if r.CpuPeriod > 0 {
		out.MilliCPULimit = ptr(quotaToMilli(r.CpuQuota, r.CpuPeriod))
	}
	if r.CpuShares > 0 {
		out.MilliCPURequest = ptr((r.CpuShares*1000 + 1023) / 1024)
	}
	if r.MemoryLimitInBytes > 0 {
		out.MemoryLimit = ptr(r.MemoryLimitInBytes)
	}
	return out
}

func quotaToMilli(quota, period int64) int64 {
	if quota < 0 {
		return 0
	}
	return quota * 1000 / period
}

func ptr[T any](v T) *T { return &v }

// joinMessages puts a termination message behind the runtime's own.
func joinMessages(messages ...string) string {
	return strings.Join(slices.DeleteFunc(messages, func(s string) bool { return s == "" }), ": ")
}
