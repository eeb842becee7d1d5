package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/labels"
)

// converged returns nil if exactly the desired pods exist, with the desired content and one
// instance each, and no remains of other pods.
func (c *churn) converged() error {
	w, err := c.runtimeState()
	if err != nil {
		return err
	}
	have, err := c.pods()
	if err != nil {
		return err
	}
	if len(have) != len(c.desired) {
		return fmt.Errorf("%d pods, want %d: %s", len(have), len(c.desired), w)
	}
	uids := map[string]bool{}
	var errs []error
	for i := range have {
		name := strings.TrimSuffix(have[i].Name, "-"+c.node)
		uids[string(have[i].UID)] = true
		if c.desired[name] == nil {
			errs = append(errs, fmt.Errorf("unexpected pod %s", name))
			continue
		}
		errs = append(errs, c.matchesDesired(w.of(name), name, &have[i]))
	}
	errs = append(errs, c.noLeftovers(w, uids), c.noDiskLeftovers(w, uids), c.checkPrograms(), c.checkStarts())
	return errors.Join(errs...)
}

// matchesDesired compares a pod with its desired state and with the runtime.
func (c *churn) matchesDesired(w runtimeState, name string, have *v1.Pod) error {
	d := c.desired[name]
	if !equalMain(have, d.pod) {
		return fmt.Errorf("%s has another version: %v", name, have.Spec.Containers[0].Env)
	}
	if name == job && d.exits > 0 {
		if have.Status.Phase != v1.PodSucceeded || len(w.running()) != 0 || len(w.ready()) != 0 {
			return fmt.Errorf("want Succeeded: %s; %s", brief(have), w)
		}
		return nil
	}
	running, ready := w.running(), w.ready()
	if len(running) != 2 || len(ready) != 1 || ready[0].Labels[labels.PodUID] != string(have.UID) {
		return fmt.Errorf("%s: want one ready sandbox with two running containers: %s", name, w)
	}
	if have.Status.Phase != v1.PodRunning || len(have.Status.ContainerStatuses) != 2 {
		return errors.New(brief(have))
	}
	var errs []error
	for _, status := range have.Status.ContainerStatuses {
		errs = append(errs, c.matchesRunning(running, have, status))
	}
	return errors.Join(errs...)
}

// matchesRunning finds the container of a status among the running ones.
func (c *churn) matchesRunning(running []*runtimeapi.Container, pod *v1.Pod, status v1.ContainerStatus) error {
	d := c.desired[strings.TrimSuffix(pod.Name, "-"+c.node)]
	for _, r := range running {
		if r.Id != bareID(status.ContainerID) {
			continue
		}
		switch most := d.allowedRestarts(); {
		case status.State.Running == nil || r.Labels[labels.PodUID] != string(pod.UID) || r.Metadata.Name != status.Name:
			return fmt.Errorf("container %s runs, but the pod's status differs: %s", r.Id, brief(pod))
		case status.RestartCount > int32(most) || status.RestartCount != int32(r.Metadata.Attempt):
			return fmt.Errorf("attempt #%d runs, want the reported restart count, at most %d: %s", r.Metadata.Attempt, most, brief(pod))
		}
		return nil
	}
	return fmt.Errorf("%s does not run: %s", status.Name, brief(pod))
}

// noLeftovers returns nil if the runtime contains only existing pods: their running containers
// and, per container, the last dead instance with its sandbox. Other dead instances of existing
// pods are removed by the next collection, which runs at the start of a kubelet and every minute.
func (c *churn) noLeftovers(w runtimeState, uids map[string]bool) error {
	var errs []error
	dead, used := map[string]int{}, map[string]bool{}
	for _, container := range w.containers {
		if container.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		uid := container.Labels[labels.PodUID]
		unit := uid + "/" + container.Metadata.Name
		used[container.PodSandboxId] = true
		if dead[unit]++; dead[unit] > 1 && c.collected || !uids[uid] || container.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			errs = append(errs, fmt.Errorf("leftover container %s %s (%s)", unit, container.Id, container.State))
		}
	}
	for _, b := range w.sandboxes {
		uid := b.Labels[labels.PodUID]
		if b.State != runtimeapi.PodSandboxState_SANDBOX_READY && (!uids[uid] || !used[b.Id] && c.collected) {
			errs = append(errs, fmt.Errorf("leftover sandbox %s %s", uid, b.Id))
		}
	}
	return errors.Join(errs...)
}

// noDiskLeftovers returns nil if all folders, logs, links and mounts belong to existing pods.
func (c *churn) noDiskLeftovers(w runtimeState, uids map[string]bool) error {
	logs := map[string]bool{}
	for _, container := range w.containers {
		l := container.Labels
		dir := pods.LogDir(c.logs, l[labels.PodNamespace], l[labels.PodName], "") + l[labels.PodUID]
		logs[fmt.Sprintf("%s/%s/%d.log", dir, container.Metadata.Name, container.Metadata.Attempt)] = true
	}
	var errs []error
	for _, pattern := range []string{c.root + "/pods/*", c.logs + "/*"} {
		folders, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, folder := range folders {
			if !uids[folder[strings.LastIndexAny(folder, "/_")+1:]] {
				errs = append(errs, fmt.Errorf("leftover %s", folder))
			}
		}
	}
	files, err := filepath.Glob(c.logs + "/*/*/*")
	errs = append(errs, err)
	for _, file := range files {
		if !logs[file] {
			errs = append(errs, fmt.Errorf("leftover %s", file))
		}
	}
	return errors.Join(append(errs, c.checkLinks(w), noMounts(c.root))...)
}

// checkLinks returns nil if each running container has a link to its log and no link is dangling.
func (c *churn) checkLinks(w runtimeState) error {
	var errs []error
	for _, r := range w.running() {
		name := strings.TrimSuffix(r.Labels[labels.PodName], "-"+c.node)
		if _, err := os.Stat(c.link(name, r.Metadata.Name, r.Id)); err != nil {
			errs = append(errs, err)
		}
	}
	links, err := filepath.Glob(linkDir + "/*-" + c.node + "_*")
	for _, link := range links {
		if _, err := os.Stat(link); err != nil {
			errs = append(errs, fmt.Errorf("dangling link %s: %w", link, err))
		}
	}
	return errors.Join(append(errs, err)...)
}

// checkStarts returns nil if no container of a current or former pod counted more starts than
// the test caused.
func (c *churn) checkStarts() error {
	var errs []error
	for start, tally := range c.tallies {
		data, err := os.ReadFile(c.orders + "/" + start)
		if err != nil && !os.IsNotExist(err) {
			errs = append(errs, err)
		}
		if n, most := strings.Count(string(data), "\n"), 1+tally.exits+tally.cuts; n > most {
			errs = append(errs, fmt.Errorf("%s: %d starts, want at most %d", start, n, most))
		}
	}
	for name, d := range c.desired {
		if strings.HasPrefix(name, "steady-") || name == job {
			if data, err := os.ReadFile(c.orders + "/" + d.start); err != nil || string(data) != "started\n" {
				errs = append(errs, fmt.Errorf("%s: want one start, have %q: %w", name, data, err))
			}
		}
	}
	return errors.Join(errs...)
}

// programEnv is an environment variable that marks processes of the test's containers with node,
// pod and container.
const programEnv = "PODWRIGHT_CHURN_PROGRAM"

// checkPrograms returns nil if exactly the desired programs run. It reads /proc, because a runtime
// may have lost a running program.
func (c *churn) checkPrograms() error {
	have, err := programs(c.node)
	if err != nil {
		return err
	}
	var errs []error
	for name, d := range c.desired {
		if name == job && d.exits > 0 {
			continue
		}
		for _, container := range []string{"main", "second"} {
			if n := have[name+"/"+container]; n != 1 {
				errs = append(errs, fmt.Errorf("%d processes of %s/%s, want 1", n, name, container))
			}
			delete(have, name+"/"+container)
		}
	}
	if len(have) > 0 {
		errs = append(errs, fmt.Errorf("unexpected processes: %v", have))
	}
	return errors.Join(errs...)
}

// programs counts the first processes of a node's containers by pod and container.
func programs(node string) (map[string]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	out := map[string]int{}
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			continue // it has exited
		}
		_, rest, found := strings.Cut("\x00"+string(env), "\x00"+programEnv+"="+node+"/")
		if !found {
			continue
		}
		name, _, _ := strings.Cut(rest, "\x00")
		status, _ := os.ReadFile(dir + "/status")
		for line := range strings.Lines(string(status)) {
			if ids := strings.Fields(line); ids[0] == "NSpid:" && len(ids) > 2 && ids[len(ids)-1] == "1" {
				out[name]++
			}
		}
	}
	return out, err
}
