package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type criConn struct {
	conn    *grpc.ClientConn
	runtime criv1.RuntimeServiceClient
	images  criv1.ImageServiceClient
}

func dialCRI(socket string) (*criConn, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", socket, err)
	}
	return &criConn{
		conn:    conn,
		runtime: criv1.NewRuntimeServiceClient(conn),
		images:  criv1.NewImageServiceClient(conn),
	}, nil
}

// ready returns the runtime's version if the runtime responds and its conditions are true.
func (c *criConn) ready(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	v, err := c.runtime.Version(ctx, &criv1.VersionRequest{Version: "0.1.0"})
	if err != nil {
		return "", err
	}
	s, err := c.runtime.Status(ctx, &criv1.StatusRequest{})
	if err != nil {
		return "", err
	}
	conditions := map[string]bool{}
	for _, cond := range s.GetStatus().GetConditions() {
		conditions[cond.GetType()] = cond.GetStatus()
		if !cond.GetStatus() {
			err = fmt.Errorf("%s: %s: %s", cond.GetType(), cond.GetReason(), cond.GetMessage())
		}
	}
	if !conditions[criv1.RuntimeReady] || !conditions[criv1.NetworkReady] {
		return "", errors.Join(errors.New("not ready"), err)
	}
	return v.GetRuntimeVersion(), nil
}

// waitReady polls until the runtime is ready. Each attempt dials a new connection, because the
// back-off of a refused one takes up to a second. waitReady fails when died is closed.
func waitReady(ctx context.Context, socket string, died <-chan struct{}) (string, error) {
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := dialCRI(socket)
		if err != nil {
			return "", err
		}
		version, err := c.ready(ctx)
		c.conn.Close()
		if err == nil {
			return version, nil
		}
		select {
		case <-died:
			return "", fmt.Errorf("exited before it was ready: %w", err)
		case <-ctx.Done():
			return "", fmt.Errorf("%w; last error: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func pullAll(ctx context.Context, socket string, images []string) error {
	c, err := dialCRI(socket)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for _, image := range images {
		_, err := c.images.PullImage(ctx, &criv1.PullImageRequest{Image: &criv1.ImageSpec{Image: image}})
		if err != nil {
			return fmt.Errorf("pull %s: %w", image, err)
		}
	}
	return nil
}

// removePods stops and removes every pod, up to eight at a time, so that CNI plugins can undo
// their changes. The sweep removes what remains.
func removePods(ctx context.Context, socket string) error {
	c, err := dialCRI(socket)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	list, err := c.runtime.ListPodSandbox(ctx, &criv1.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(8)
	for _, pod := range list.GetItems() {
		all.Go(func() error {
			_, err := c.runtime.StopPodSandbox(ctx, &criv1.StopPodSandboxRequest{PodSandboxId: pod.GetId()})
			if err == nil {
				_, err = c.runtime.RemovePodSandbox(ctx, &criv1.RemovePodSandboxRequest{PodSandboxId: pod.GetId()})
			}
			if err != nil {
				err = fmt.Errorf("pod %s: %w", pod.GetId(), err)
			}
			return err
		})
	}
	return all.Wait()
}
