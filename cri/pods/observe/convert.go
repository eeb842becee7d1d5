package observe

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/internal/clip"
	"github.com/podwright/podwright/pleg/observed"
)

// The functions of this file are pure. They convert CRI messages to types of package observed.
// Getters of generated messages accept nil.

// State converts the state of a container.
func State(s runtimeapi.ContainerState) observed.State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return observed.StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return observed.StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return observed.StateExited
	default:
		return observed.StateUnknown
	}
}

func toSandboxState(s runtimeapi.PodSandboxState) observed.SandboxState {
	switch s {
	case runtimeapi.PodSandboxState_SANDBOX_READY:
		return observed.SandboxReady
	case runtimeapi.PodSandboxState_SANDBOX_NOTREADY:
		return observed.SandboxNotReady
	default:
		return observed.SandboxUnknown
	}
}

// Time converts a runtime's nanoseconds. 0 is the zero time.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
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

// sortContainers orders newest first: by attempt, then creation, then ID. The attempt orders the
// instances of a container even if the clock was set back.
func sortContainers(list []*runtimeapi.Container) {
	slices.SortFunc(list, func(a, b *runtimeapi.Container) int {
		return cmp.Or(
			cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
			cmp.Compare(b.CreatedAt, a.CreatedAt),
			cmp.Compare(a.Id, b.Id),
		)
	})
}

// groupPods groups the two lists by pod, the newest pod first.
func groupPods(runtimeName string, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) []observed.ListedPod {
	sortSandboxes(sandboxes)
	sortContainers(containers)
	byUID := map[types.UID]*observed.ListedPod{}
	pod := func(p labels.Pod, created int64) *observed.ListedPod {
		o := byUID[p.UID]
		if o == nil {
			o = &observed.ListedPod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
			byUID[p.UID] = o
		}
		if at := Time(created); at.After(o.CreatedAt) {
			o.CreatedAt = at
		}
		return o
	}
	for _, sb := range sandboxes {
		if p, ok := labels.OfSandbox(sb); ok {
			o := pod(p, sb.CreatedAt)
			if len(o.Sandboxes) == 0 {
				o.Source = sb.Annotations[labels.AnnotationSource]
			}
			o.Sandboxes = append(o.Sandboxes, observed.ListedSandbox{ID: sb.Id, State: toSandboxState(sb.State)})
		}
	}
	for _, c := range containers {
		if p, name, ok := labels.OfContainer(c); ok {
			o := pod(p, c.CreatedAt)
			id := observed.ContainerID{Runtime: runtimeName, ID: c.Id}
			o.Containers = append(o.Containers, observed.ListedContainer{ID: id, Name: name, State: State(c.State)})
		}
	}
	out := make([]observed.ListedPod, 0, len(byUID))
	for _, o := range byUID {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b observed.ListedPod) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func toSandbox(s *runtimeapi.PodSandboxStatus) observed.Sandbox {
	return observed.Sandbox{
		ID:               s.GetId(),
		Name:             s.GetMetadata().GetName(),
		Namespace:        s.GetMetadata().GetNamespace(),
		State:            toSandboxState(s.GetState()),
		Attempt:          s.GetMetadata().GetAttempt(),
		CreatedAt:        Time(s.GetCreatedAt()),
		HostNetwork:      s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		HasNetworkStatus: s.GetNetwork() != nil,
		IPs:              SandboxIPs(s.GetNetwork()),
	}
}

// SandboxIPs returns the addresses of a sandbox, the primary one first, or none if any of them is
// malformed.
func SandboxIPs(network *runtimeapi.PodSandboxNetworkStatus) []string {
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

func toContainerStatus(runtimeName, sandboxID string, s *runtimeapi.ContainerStatus) observed.Container {
	out := observed.Container{
		ID:           observed.ContainerID{Runtime: runtimeName, ID: s.Id},
		Name:         s.GetLabels()[labels.ContainerName],
		SandboxID:    sandboxID,
		State:        State(s.State),
		CreatedAt:    Time(s.CreatedAt),
		Image:        s.GetImage().GetImage(),
		ImageID:      cmp.Or(s.ImageId, s.ImageRef),
		ImageRef:     s.ImageRef,
		Hash:         parseHash(s.Annotations[labels.AnnotationHash]),
		RestartCount: annotatedInt(s.Annotations, labels.AnnotationRestartCount),
		LogPath:      s.LogPath,
		Resources:    toResources(s.GetResources().GetLinux()),
		User:         toUser(s.GetUser().GetLinux()),
	}
	out.StopSignal = signalName(s.StopSignal)
	if out.State != observed.StateCreated {
		out.StartedAt = Time(s.StartedAt)
	}
	if out.State == observed.StateExited {
		out.FinishedAt = Time(s.FinishedAt)
		out.ExitCode, out.Reason, out.Message = s.ExitCode, clip.Text(s.Reason, clip.Reason), clip.Text(s.Message, clip.Message)
	}
	return out
}

// signalName returns a signal's name in the form of a pod's spec: SIGTERM, SIGRTMIN+1. It returns
// "" for the runtime's default and for signals that are not part of the API.
func signalName(s runtimeapi.Signal) string {
	if _, known := runtimeapi.Signal_name[int32(s)]; !known || s == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return ""
	}
	name := strings.TrimPrefix(s.String(), "SIGNAL_")
	return strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(name)
}

func toUser(u *runtimeapi.LinuxContainerUser) *observed.User {
	if u == nil {
		return nil
	}
	return &observed.User{UID: u.Uid, GID: u.Gid, SupplementalGroups: slices.Clone(u.SupplementalGroups)}
}

// toResources converts the resources that request.Builder.ContainerResources produced.
func toResources(r *runtimeapi.LinuxContainerResources) *observed.Resources {
	if r == nil {
		return nil
	}
	out := &observed.Resources{}
	if r.CpuPeriod > 0 {
		out.MilliCPULimit = new(quotaToMilli(r.CpuQuota, r.CpuPeriod))
	}
	if r.CpuShares > 0 {
		out.MilliCPURequest = new((r.CpuShares*1000 + 1023) / 1024)
	}
	if r.MemoryLimitInBytes > 0 {
		out.MemoryLimit = new(r.MemoryLimitInBytes)
	}
	return out
}

func quotaToMilli(quota, period int64) int64 {
	return max(quota, 0) * 1000 / period
}

// joinMessages joins the nonempty messages.
func joinMessages(messages ...string) string {
	return strings.Join(slices.DeleteFunc(messages, func(s string) bool { return s == "" }), ": ")
}

func parseHash(s string) uint64 {
	h, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0
	}
	return h
}

// annotatedInt parses a decimal annotation. A missing or malformed value counts as 0.
func annotatedInt(annotations map[string]string, key string) int32 {
	n, err := strconv.ParseInt(annotations[key], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
