package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/testkit/golden"
)

const (
	staticPods   = scratch + "/manifests"
	socket       = scratch + "/runtime.sock"
	readOnlyPort = "10255"
)

// kubeletConfig returns the upstream kubelet's configuration. It differs from the defaults where
// the machine lacks a feature, where the kubelet would affect the host, or where it would take
// time.
func kubeletConfig(o options, e golden.Environment, cgroup string) map[string]any {
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + socket,
		"staticPodPath":            staticPods, "fileCheckFrequency": "1s", "syncFrequency": "10s",
		"podLogsDir": logDir, "resolvConf": scratch + "/resolv.conf",
		"clusterDNS": e.ClusterDNS, "clusterDomain": e.ClusterDomain,
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + cgroup,
		"address": "127.0.0.1", "readOnlyPort": json.Number(readOnlyPort),
		"authentication":         map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":          map[string]any{"mode": "AlwaysAllow"},
		"makeIPTablesUtilChains": false, "failSwapOn": false,
		"localStorageCapacityIsolation": true,
		"enforceNodeAllocatable":        []string{"pods"},
		// Prevent evictions and reservations.
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"serializeImagePulls": false,
	}
	if o.set == golden.Options {
		config["seccompDefault"], config["cpuCFSQuotaPeriod"] = true, golden.OptionalCPUPeriod.String()
		config["clusterDNS"], config["resolvConf"] = []string{}, ""
	}
	if o.set == golden.Cluster {
		config["contentType"] = "application/json" // the only encoding of api
		delete(config, "staticPodPath")
	}
	if o.set == golden.Cgroup2 { // no controllers for cgroups of pods
		config["cgroupsPerQOS"], config["enforceNodeAllocatable"], config["cgroupRoot"] = false, []string{}, ""
	}
	return config
}

type kubelet struct {
	cmd  *exec.Cmd
	done chan error
	log  *os.File
}

func startKubelet(o options, e golden.Environment, cgroup string) (*kubelet, error) {
	config := filepath.Join(scratch, "config.json")
	if err := golden.WriteJSON(config, kubeletConfig(o, e, cgroup)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(scratch, "resolv.conf"), []byte(e.ResolvConf), 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(o.log)
	if err != nil {
		return nil, err
	}
	k := &kubelet{done: make(chan error, 1), log: log}
	k.cmd = exec.Command(o.kubelet, "--config", config, "--root-dir", rootDir, "--cert-dir", filepath.Join(scratch, "pki"),
		"--hostname-override", e.NodeName, "--node-ip", e.NodeIP, "--v", "2")
	if o.set == golden.Cluster {
		k.cmd.Args = append(k.cmd.Args, "--kubeconfig", kubeconfig)
	}
	k.cmd.Stdout, k.cmd.Stderr = log, log
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		log.Close()
		return nil, err
	}
	go func() { k.done <- k.cmd.Wait() }()
	return k, nil
}

// stop stops the kubelet. Its pods keep running.
func (k *kubelet) stop() {
	_ = k.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-k.done:
	case <-time.After(10 * time.Second):
		_ = k.cmd.Process.Kill()
		<-k.done
	}
	k.log.Close()
}

// failure returns an error if the kubelet has ended unexpectedly, with the end of its log.
func (k *kubelet) failure() error {
	select {
	case err := <-k.done:
		k.done <- err
		text, _ := os.ReadFile(k.log.Name())
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return fmt.Errorf("the kubelet has ended: %w\n%s", errors.Join(err, io.ErrUnexpectedEOF), strings.Join(lines[max(0, len(lines)-10):], "\n"))
	default:
		return nil
	}
}

// pods returns the kubelet's pods by UID, decoded and as JSON.
func pods(ctx context.Context) (map[string]v1.Pod, map[string]json.RawMessage, error) {
	text, err := get(ctx, "/pods")
	if err != nil {
		return nil, nil, err
	}
	var raw struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nil, err
	}
	parsed, texts := map[string]v1.Pod{}, map[string]json.RawMessage{}
	for _, item := range raw.Items {
		var pod v1.Pod
		if err := json.Unmarshal(item, &pod); err != nil {
			return nil, nil, err
		}
		parsed[string(pod.UID)], texts[string(pod.UID)] = pod, item
	}
	return parsed, texts, nil
}

func get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+readOnlyPort+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}
