package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// volumesPod is the spec of a pod with five volumes. The first has the content of a config map,
// whose name is a parameter.
const volumesPod = `hostNetwork: true
  containers: [{%%s, volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}, {name: c, mountPath: /c}, {name: d, mountPath: /d}, {name: e, mountPath: /e}]}]
  volumes:
  - {name: a, configMap: {name: %[1]s}}
  - {name: b, secret: {secretName: pass}}
  - {name: c, projected: {sources: [{configMap: {name: same}}, {secret: {name: pass}}]}}
  - {name: d, emptyDir: {}}
  - {name: e, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}`

const (
	changing = "configmaps/bench/changing.yaml"
	manyText = "{apiVersion: v1, kind: ConfigMap, data: {a: %q, b: two}}"
)

const barePod = `hostNetwork: true
  containers: [{%s}]`

// manyFigures measures the cost of many idle pods with five volumes each, and of as many without
// volumes. It also measures the time until a change of a config map that half of the pods use is
// on the disk for all of them. The runtime is in memory, in this process, so containers cost the
// agent only CRI calls.
func manyFigures(ctx context.Context, _ []endpoint, binary, dir string, o options) error {
	for _, volumes := range []bool{false, true} {
		below := filepath.Join(dir, fmt.Sprint("volumes-", volumes))
		if err := os.Mkdir(below, 0o700); err != nil {
			return err
		}
		if err := manyPods(ctx, binary, below, volumes, o); err != nil {
			return err
		}
	}
	return nil
}

func manyPods(ctx context.Context, binary, dir string, volumes bool, o options) (err error) {
	rt, err := fake.New(fake.Config{AnyImage: true})
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "fake.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- rt.Serve(serving, listener) }()
	defer func() { end(); err = errors.Join(err, <-served) }()
	objects := filepath.Join(dir, "objects")
	for file, text := range map[string]string{
		changing:                      fmt.Sprintf(manyText, "v0"),
		"configmaps/bench/same.yaml":  fmt.Sprintf(manyText, "same"),
		"configmaps/bench/other.yaml": fmt.Sprintf(manyText, "other"),
		"secrets/bench/pass.yaml":     "{apiVersion: v1, kind: Secret, stringData: {pass: one}}",
	} {
		if err := replaceFile(filepath.Join(objects, file), text); err != nil {
			return err
		}
	}
	a, err := startAgent(ctx, binary, endpoint{"in memory", "unix://" + socket}, dir, "bench:1", "--objects-dir="+objects)
	if err != nil {
		return err
	}
	defer a.stop()
	fmt.Printf("\n%d pods with %s, containers in memory\n", o.volumePods, map[bool]string{true: "five volumes each", false: "no volumes"}[volumes])
	if err := a.startMany(ctx, o.volumePods, volumes); err != nil {
		return err
	}
	used, err := atRest(ctx, a.cmd.Process.Pid, o.idle)
	if err != nil {
		return err
	}
	fmt.Printf("  %-52s %10.1f ms per second (limit: 5 more with volumes)\n", "idle: CPU of the agent", used)
	if volumes {
		if err := a.changeMany(ctx, objects, o); err != nil {
			return err
		}
	}
	return a.allEnd(ctx, o.volumePods, manyPod)
}

func manyPod(i int) string { return fmt.Sprintf("many-%d", i) }

// startMany starts pods in batches of 100. Every second pod uses the config map that changes
// later.
func (a *agent) startMany(ctx context.Context, n int, volumes bool) error {
	begin := time.Now()
	for i := range n {
		spec := barePod
		if volumes {
			spec = fmt.Sprintf(volumesPod, []string{"changing", "other"}[i%2])
		}
		if err := a.write(manyPod(i), a.manifest(manyPod(i), spec)); err != nil {
			return err
		}
		if (i+1)%100 != 0 && i+1 != n {
			continue
		}
		err := a.awaitPods(ctx, 10*pollMany, fmt.Sprint(i+1, " pods run"), func(pods map[string]v1.Pod) bool {
			running := 0
			for _, p := range pods {
				if isRunning(p) {
					running++
				}
			}
			return running > i
		})
		if err != nil {
			return err
		}
	}
	fmt.Printf("  %-52s %10s\n", "all run, started in batches of 100", ms(time.Since(begin)))
	return nil
}

// changeMany changes the config map repeatedly and measures each change.
func (a *agent) changeMany(ctx context.Context, objects string, o options) error {
	path := filepath.Join(objects, changing)
	var files []string
	pods := filepath.Join(filepath.Dir(a.log), "root/pods")
	for i := 0; i < o.volumePods; i += 2 {
		files = append(files, filepath.Join(pods, manyPod(i)+"/volumes/kubernetes.io~configmap/a/a"))
	}
	opened, err := watchOpens(path)
	if err != nil {
		return err
	}
	var took []time.Duration
	for run := range o.runs {
		want := fmt.Sprint("v", run+1)
		begin := time.Now()
		if err := replaceFile(path, fmt.Sprintf(manyText, want)); err != nil {
			return err
		}
		left := slices.Clone(files)
		err := a.await(ctx, pollOne, "all pods have the change", func() bool {
			left = slices.DeleteFunc(left, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && string(text) == want
			})
			return len(left) == 0
		})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	reads, err := opened()
	if err == nil {
		printSpread(fmt.Sprintf("config map change of %d pods: on all disks", len(files)), took, time.Second)
		fmt.Printf("  %-52s %10.1f, for all pods together\n", "  opens of its file per change", float64(reads)/float64(o.runs))
	}
	return err
}

// watchOpens starts to count the opens of a file. opened returns the count and stops.
func watchOpens(path string) (opened func() (int, error), err error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_OPEN); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return func() (int, error) {
		defer unix.Close(fd)
		buf, n := make([]byte, 1<<20), 0
		got, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return 0, nil
		}
		if err == nil { // an event has 16 bytes, then the name padded with zeros
			n = strings.Count(string(buf[:got]), filepath.Base(path)+"\x00")
		}
		return n, err
	}, nil
}

// replaceFile writes a file in another folder and renames it.
func replaceFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	aside := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(path))), ".aside")
	if err := os.WriteFile(aside, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(aside, path)
}
