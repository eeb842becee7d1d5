package plegtest

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// Pod returns a pod with one ready sandbox with the ID "<uid>-sandbox" and the address 10.0.0.1,
// and with the given containers, newest first.
func Pod(uid types.UID, containers ...observed.Container) observed.Pod {
	s := observed.Pod{
		UID: uid, Name: string(uid), Namespace: "default",
		Sandboxes: []observed.Sandbox{{
			ID: string(uid) + "-sandbox", State: observed.SandboxReady,
			HasNetworkStatus: true, IPs: []string{"10.0.0.1"},
		}},
		IPs: []string{"10.0.0.1"},
	}
	for _, c := range containers {
		c.SandboxID = s.Sandboxes[0].ID
		s.Containers = append(s.Containers, c)
	}
	return s
}

// Running returns a running container. Its name is the part of the ID before the last dash.
func Running(id string) observed.Container { return container(id, observed.StateRunning) }

// Created returns a container that was not started.
func Created(id string) observed.Container { return container(id, observed.StateCreated) }

// Exited returns a container that has exited with the code.
func Exited(id string, code int32) observed.Container {
	c := container(id, observed.StateExited)
	c.ExitCode = code
	return c
}

func container(id string, s observed.State) observed.Container {
	name := id
	if i := strings.LastIndex(id, "-"); i > 0 {
		name = id[:i]
	}
	return observed.Container{ID: observed.ContainerID{Runtime: "plegtest", ID: id}, Name: name, State: s}
}

// Pods returns the Pods of the runtime, for Run and Bench.
func (r *Runtime) Pods() Pods { return podChanger{r} }

type podChanger struct{ rt *Runtime }

func (c podChanger) Start(_ context.Context, uid types.UID) error {
	c.rt.Update(uid, func(s *observed.Pod) {
		if s.Empty() {
			*s = Pod(uid)
		}
		n := len(s.Containers)
		fresh := Running(fmt.Sprintf("%s-main-%d", uid, n))
		fresh.Name, fresh.SandboxID, fresh.RestartCount = "main", s.Sandboxes[0].ID, int32(n)
		s.Containers = append([]observed.Container{fresh}, s.Containers...)
	})
	return nil
}

func (c podChanger) Exit(_ context.Context, uid types.UID) error {
	c.rt.Update(uid, func(s *observed.Pod) {
		for i := range s.Containers {
			s.Containers[i].State = observed.StateExited
		}
	})
	return nil
}

func (c podChanger) Remove(_ context.Context, uid types.UID) error {
	c.rt.Remove(uid)
	return nil
}
