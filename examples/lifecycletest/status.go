package lifecycletest

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// exitCode is the error of a program that ends with this code. Other errors have the code 1.
type exitCode int32

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int32(e)) }

// running returns the ID of the pod's running program. Each run has its own.
func (a *agent) running(uid types.UID) ([]string, error) {
	if j := a.job(uid); j != nil && !j.ended() {
		return []string{j.id(uid)}, nil
	}
	return nil, nil
}

// held returns the resources of a pod: its job.
func (a *agent) held(uid types.UID) ([]string, error) {
	if a.job(uid) != nil {
		return []string{"job"}, nil
	}
	return nil, nil
}

// status returns the pod's status, or nil without a job.
func (a *agent) status(uid types.UID) *v1.PodStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[uid]
	if j == nil {
		return nil
	}
	c := v1.ContainerStatus{Name: "main", Image: j.image, ContainerID: j.id(uid), RestartCount: int32(j.run), State: j.state(uid)}
	if j.last != nil {
		c.LastTerminationState = j.last.state(uid)
	}
	phase := v1.PodRunning
	if j.final {
		phase = v1.PodSucceeded
		if j.err != nil {
			phase = v1.PodFailed
		}
	}
	return &v1.PodStatus{Phase: phase, ObservedGeneration: j.version, ContainerStatuses: []v1.ContainerStatus{c}}
}

func (j *job) id(uid types.UID) string { return fmt.Sprintf("go://%s/%d", uid, j.run) }

func (j *job) state(uid types.UID) v1.ContainerState {
	if !j.ended() {
		return v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	}
	end := &v1.ContainerStateTerminated{ContainerID: j.id(uid), FinishedAt: metav1.NewTime(j.at)}
	if code := exitCode(1); errors.As(j.err, &code) || j.err != nil {
		end.ExitCode = int32(code)
	}
	return v1.ContainerState{Terminated: end}
}
