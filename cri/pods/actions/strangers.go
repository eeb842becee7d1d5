package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
)

// ownStatus is what the runtime has of the pod itself: a sandbox that was made for
// another name or namespace is not the pod's, whatever its UID, and what is in it
// is neither. It tells whether something of that may still run.
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

// sandboxChange decides whether the pod needs a new sandbox; all is what the runtime
// has under its UID. A new one is newer than those of others.
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

// strangers stops the containers that run in the pod and that its spec does not have: it
// had them under other names, or has them no longer. Nobody else would.
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
