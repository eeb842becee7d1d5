package pleg

import "slices"

// Newest returns the newest instance of the named container, or nil.
func (s *PodStatus) Newest(name string) *ContainerStatus {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Running returns the running containers, newest first.
func (s *PodStatus) Running() []ContainerStatus {
	var out []ContainerStatus
	for _, c := range s.Containers {
		if c.State == StateRunning {
			out = append(out, c)
		}
	}
	return out
}

// Active returns the containers that belong to the current sandbox: the newest
// one, if it is ready. After a reboot the containers of the old sandbox are
// still known but no longer active.
func (s *PodStatus) Active() []ContainerStatus {
	if len(s.Sandboxes) == 0 || s.Sandboxes[0].State != SandboxReady {
		return nil
	}
	var out []ContainerStatus
	for _, c := range s.Containers {
		if c.SandboxID == s.Sandboxes[0].ID {
			out = append(out, c)
		}
	}
	return out
}

// Empty tells that the runtime has nothing of the pod.
func (s *PodStatus) Empty() bool { return len(s.Sandboxes) == 0 && len(s.Containers) == 0 }

// Stopped tells that no container runs and no sandbox is ready. A state that
// nobody knows counts as running.
func (s *PodStatus) Stopped() bool {
	return !slices.ContainsFunc(s.Containers, func(c ContainerStatus) bool { return c.State.mayRun() }) &&
		!slices.ContainsFunc(s.Sandboxes, func(sb Sandbox) bool { return sb.State.mayRun() })
}

// Stopped is PodStatus.Stopped as far as a list shows it.
func (p *ObservedPod) Stopped() bool {
	return !slices.ContainsFunc(p.Containers, func(c ObservedContainer) bool { return c.State.mayRun() }) &&
		!slices.ContainsFunc(p.Sandboxes, func(sb ObservedSandbox) bool { return sb.State.mayRun() })
}

func (s State) mayRun() bool { return s == StateRunning || s == StateUnknown }

func (s SandboxState) mayRun() bool { return s != SandboxNotReady }

// SandboxChange is the decision on a pod's sandboxes.
type SandboxChange struct {
	// Changed tells that the pod needs a new sandbox.
	Changed bool
	// Attempt is the attempt number of the new sandbox, or of the current one.
	Attempt uint32
	// ID is the current sandbox, or the one that is replaced; "" when none is
	// or when nothing is kept of it.
	ID string
}

// SandboxChanged decides whether a pod needs a new sandbox. hostNetwork is what
// the pod's spec asks for.
func (s *PodStatus) SandboxChanged(hostNetwork bool) SandboxChange {
	if len(s.Sandboxes) == 0 {
		return SandboxChange{Changed: true}
	}
	ready := 0
	for _, sb := range s.Sandboxes {
		if sb.State == SandboxReady {
			ready++
		}
	}
	newest := s.Sandboxes[0]
	next := SandboxChange{Changed: true, Attempt: newest.Attempt + 1, ID: newest.ID}
	switch {
	case ready > 1, newest.State != SandboxReady:
		return next
	case newest.HostNetwork != hostNetwork:
		next.ID = ""
		return next
	case !hostNetwork && newest.HasNetworkStatus && len(newest.IPs) == 0:
		return next
	}
	return SandboxChange{Attempt: newest.Attempt, ID: newest.ID}
}

// keepIPs returns the addresses for the new status: its own, else those of its
// newest sandbox, else, once no sandbox is ready and the network may be torn
// down, those known before. A ready sandbox without an address has none.
func keepIPs(s, old *PodStatus) []string {
	if len(s.IPs) > 0 {
		return s.IPs
	}
	if len(s.Sandboxes) > 0 && len(s.Sandboxes[0].IPs) > 0 {
		return s.Sandboxes[0].IPs
	}
	for _, sb := range s.Sandboxes {
		if sb.State == SandboxReady {
			return nil
		}
	}
	if old == nil || s.Empty() {
		return nil
	}
	return old.IPs
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}
