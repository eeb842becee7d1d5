package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
)

// history records the observed containers of a scene and fails at the first violation:
//
//   - two containers of one name run in one pod, even with different UIDs;
//   - a container that was seen running is replaced in the same pod with the same content more
//     often than its program was ordered to exit;
//   - a restart count does not grow with a restart;
//   - the log of a running container is missing or is another file;
//   - an untouched container does not run or was replaced.
type history struct {
	scene *scene
	// maxRestarts returns the allowed number of replacements of a container so far. recreated
	// reports whether the pod may have been removed and added again with the same UID.
	maxRestarts func(pod, container string) int
	recreated   func(pod string) bool
	// instances has the IDs of the observed containers by pod UID, container and content.
	instances map[content][]string
	ran       map[string]*instance
	// untouched has the ids of the containers that must run all the time.
	untouched map[string]string
	// now counts the running containers by pod and container.
	now map[string]int
	// last is the latest state; changes counts its changes.
	last    string
	changes int
	scans   int
	// cutStarts are the containers that exited without having run.
	cutStarts map[string]bool
}

// content identifies containers of one UID, name and content hash.
type content struct{ uid, container, hash string }

type instance struct {
	attempt uint32
	log     string
	file    os.FileInfo
}

func newHistory(s *scene) *history {
	return &history{
		scene: s, instances: map[content][]string{},
		ran: map[string]*instance{}, cutStarts: map[string]bool{},
	}
}

func (h *history) String() string {
	return fmt.Sprintf("%d containers with %d contents in %d scans", len(h.ran), len(h.instances), h.scans)
}

// watchThen returns cond preceded by a call of watch.
func (h *history) watchThen(cond func() error) func() error {
	return func() error {
		if err := h.watch(); err != nil || cond == nil {
			return err
		}
		return cond()
	}
}

// watch checks the current state of the runtime.
func (h *history) watch() error {
	w, err := h.scene.runtimeState()
	if err != nil {
		return err
	}
	h.scans++
	h.now = map[string]int{}
	var errs []error
	for _, c := range w.containers {
		name := strings.TrimSuffix(c.Labels[labels.PodName], "-"+w.node)
		switch c.State {
		case runtimeapi.ContainerState_CONTAINER_RUNNING:
			if h.now[name+"/"+c.Metadata.Name]++; h.now[name+"/"+c.Metadata.Name] > 1 {
				errs = append(errs, fmt.Errorf("%s/%s runs more than once: %s", name, c.Metadata.Name, w.of(name)))
			}
			errs = append(errs, h.observeRunning(name, c))
		case runtimeapi.ContainerState_CONTAINER_EXITED:
			h.observeExited(c)
		}
	}
	ids := w.ids()
	for name, was := range h.untouched {
		if ids[name] != was {
			errs = append(errs, fmt.Errorf("%s changed from %s to %q", name, was, ids[name]))
		}
	}
	if now := w.String(); now != h.last {
		h.last = now
		h.changes++
	}
	return errors.Join(errs...)
}

func (h *history) observeRunning(pod string, c *runtimeapi.Container) error {
	if h.ran[c.Id] == nil {
		if err := h.observeNew(pod, c); err != nil {
			return err
		}
	}
	seen := h.ran[c.Id]
	if seen == nil {
		return nil // it has been removed since
	}
	file, err := os.Stat(seen.log)
	if err == nil && os.SameFile(file, seen.file) {
		return nil
	}
	if status, lost := h.scene.cri.ContainerStatus(context.Background(), c.Id, false); lost != nil || status.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil // both were removed since the scan
	}
	return fmt.Errorf("%s/%s: log of running container %s was removed or replaced: %w", pod, c.Metadata.Name, c.Id, errors.Join(err, errors.New(seen.log)))
}

// observeNew checks a container at its first observation against its predecessors.
func (h *history) observeNew(pod string, c *runtimeapi.Container) error {
	response, err := h.scene.cri.ContainerStatus(context.Background(), c.Id, false)
	if cri.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	seen := &instance{attempt: c.Metadata.Attempt, log: response.Status.LogPath}
	if seen.file, err = os.Stat(seen.log); err != nil {
		if response, lost := h.scene.cri.ContainerStatus(context.Background(), c.Id, false); lost != nil || response.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return nil
		}
		return fmt.Errorf("%s/%s runs without a log: %w", pod, c.Metadata.Name, err)
	}
	made := content{c.Labels[labels.PodUID], c.Metadata.Name, c.Annotations[labels.AnnotationHash]}
	before := h.instances[made]
	h.instances[made] = append(before, c.Id)
	h.ran[c.Id] = seen
	if len(before) == 0 {
		return nil
	}
	most := h.maxRestarts(pod, c.Metadata.Name)
	if len(before) > most {
		return fmt.Errorf("%s/%s: %s #%d replaced %v without a cause", pod, c.Metadata.Name, c.Id, c.Metadata.Attempt, before)
	}
	// A pod that was removed and added again with its UID may count from zero.
	if last := h.ran[before[len(before)-1]]; seen.attempt <= last.attempt && !h.recreated(pod) {
		return fmt.Errorf("%s/%s: attempt #%d runs after attempt #%d", pod, c.Metadata.Name, seen.attempt, last.attempt)
	}
	return nil
}

// observeExited records whether a container exited without having run.
func (h *history) observeExited(c *runtimeapi.Container) {
	if _, seen := h.cutStarts[c.Id]; seen || h.ran[c.Id] != nil {
		return
	}
	response, err := h.scene.cri.ContainerStatus(context.Background(), c.Id, false)
	if err == nil && response.Status.Reason == "StartError" {
		h.cutStarts[c.Id] = true
	}
}
