package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// volumeFigures compares the start of a pod with a config map and a secret to the start of a pod
// without volumes, and to bare CRI calls that mount two folders.
func volumeFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	objects := filepath.Join(dir, "objects")
	for file, text := range map[string]string{
		"configmaps/bench/conf.yaml": "{apiVersion: v1, kind: ConfigMap, data: {a: one, b: two}}",
		"secrets/bench/pass.yaml":    "{apiVersion: v1, kind: Secret, stringData: {a: one, b: two}}",
	} {
		if err := replaceFile(filepath.Join(objects, file), text); err != nil {
			return err
		}
	}
	for i, e := range endpoints {
		fmt.Printf("\n%s, a config map and a secret\n", e.name)
		if err := volumesOn(ctx, e, binary, filepath.Join(dir, fmt.Sprint("volumes-", i)), objects, o); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

func volumesOn(ctx context.Context, e endpoint, binary, dir, objects string, o options) error {
	b, err := newBare(ctx, e, dir, o.image)
	if err != nil {
		return err
	}
	defer b.close()
	a, err := startAgent(ctx, binary, e, dir, o.image, "--objects-dir="+objects)
	if err != nil {
		return err
	}
	defer a.stop()
	folders := &runtimeapi.ContainerConfig{Command: command, Mounts: []*runtimeapi.Mount{
		{HostPath: objects, ContainerPath: "/conf", Readonly: true}, {HostPath: objects, ContainerPath: "/pass", Readonly: true},
	}}
	var with, without, bare []time.Duration
	for i := range o.runs {
		took, err := a.startAndRemove(ctx, fmt.Sprintf("with-%d", i), volumePod)
		if err != nil {
			return err
		}
		with = append(with, took)
		if took, err = a.startAndRemove(ctx, fmt.Sprintf("without-%d", i), "containers: [{%s}]"); err != nil {
			return err
		}
		without = append(without, took)
		begin := time.Now()
		sandbox, _, err := b.startWith(ctx, folders)
		bare = append(bare, time.Since(begin))
		if err == nil {
			err = b.stop(ctx, sandbox)
		}
		if err != nil {
			return err
		}
	}
	row("one pod: file seen to Running in /pods", median(with), median(bare), 1.25)
	row("  the same without volumes", median(without), median(bare), 0)
	return nil
}

const volumePod = `containers: [{%s, volumeMounts: [{name: conf, mountPath: /conf}, {name: pass, mountPath: /pass}]}]
  volumes: [{name: conf, configMap: {name: conf}}, {name: pass, secret: {secretName: pass}}]`

// manifest returns the manifest of a pod. It inserts the container's fields into spec.
func (a *agent) manifest(name, spec string) string {
	container := fmt.Sprintf(`name: main, image: "%s", imagePullPolicy: IfNotPresent, command: [/testprog, run]`, a.image)
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: bench, uid: %s}\nspec:\n  terminationGracePeriodSeconds: 10\n  ", name, name)
	return manifest + fmt.Sprintf(spec, container) + "\n"
}

// startAndRemove runs a pod and removes it. It returns the time until the pod ran.
func (a *agent) startAndRemove(ctx context.Context, name, spec string) (took time.Duration, err error) {
	begin := time.Now()
	err = a.runs(ctx, name, spec)
	took = time.Since(begin)
	if err != nil {
		return took, err
	}
	return took, a.ends(ctx, name)
}
