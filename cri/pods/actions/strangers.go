package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// ownStatus returns the part of the status that belongs to the pod. A sandbox with another name
// or namespace belongs to another pod despite the UID, and so do its containers. othersRun
// reports whether any of those may still be running.
func ownStatus(pod *v1.Pod, all *observed.Pod) (own *observed.Pod, othersRun bool) {
	others := map[string]bool{}
	for _, sb := range all.Sandboxes {
		if sb.Name != "" && (sb.Name != pod.Name || sb.Namespace != pod.Namespace) {
			others[sb.ID] = true
			othersRun = othersRun || sb.State != observed.SandboxNotReady
		}
	}
	if len(others) == 0 {
		return all, false
	}
	own = new(*all)
	own.Sandboxes = slices.DeleteFunc(slices.Clone(all.Sandboxes), func(sb observed.Sandbox) bool { return others[sb.ID] })
	own.Containers = slices.DeleteFunc(slices.Clone(all.Containers), func(c observed.Container) bool {
		othersRun = othersRun || others[c.SandboxID] && mayStillRun(&c)
		return others[c.SandboxID]
	})
	return own, othersRun
}

// sandboxChange reports whether the pod needs a new sandbox. all is the runtime's whole state of
// the pod's UID. The attempt is higher than in all other sandboxes of that UID.
func (d *decision) sandboxChange(all *observed.Pod, othersRun bool) observed.SandboxChange {
	change := d.in.Status.SandboxChanged(d.in.Pod.Spec.HostNetwork)
	if othersRun {
		change.Changed, change.ID = true, ""
	}
	if change.Changed && len(all.Sandboxes) > 0 {
		change.Attempt = all.Sandboxes[0].Attempt + 1
	}
	return change
}

// strangers stops the running containers of the pod that its spec does not contain, such as
// renamed or removed ones. No other step stops them.
func (d *decision) strangers() {
	for i := range d.in.Status.Containers {
		s := &d.in.Status.Containers[i]
		switch {
		case podfacts.Container(d.in.Pod, s.Name) != nil:
		case mayStillRun(s):
			d.kill(s, "", "Container "+s.Name+" is not in the pod's spec", false)
		case s.State == observed.StateCreated:
			d.out.Remove = append(d.out.Remove, *s)
		}
	}
}
