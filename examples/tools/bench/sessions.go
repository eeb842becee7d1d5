package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/streams"
)

// sessionFigures measures the kubelet API of this kubelet and then, with -upstream, of the
// upstream one on the same runtime. With -logs it measures the rate of reading a log of that many
// bytes, and the memory for it. With -exec it measures an exec session of `true`: at the kubelet,
// through the API server, and on the runtime's own URL. These alternate, so that other load on the
// machine affects all three equally.
func sessionFigures(ctx context.Context, endpoints []endpoint, binary, dir string, o options) error {
	return onCluster(ctx, endpoints, binary, withoutAuthentication, o, func(c *cluster, t *table, all []peer, i int, e endpoint) error {
		for _, p := range all {
			p.settings += "containerLogMaxSize: 100Gi\n"
			if err := c.measureSessions(ctx, t, p, e, filepath.Join(dir, fmt.Sprint(p.name, "-", i)), o); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
}

// withoutAuthentication allows anonymous requests, as upstreamSettings do. Authentication is not
// measured.
const withoutAuthentication = `authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
`

func (c *cluster) measureSessions(ctx context.Context, t *table, p peer, e endpoint, dir string, o options) (err error) {
	n, err := c.start(ctx, p, e, dir, os.Getenv("PODWRIGHT_IMAGE_BUSYBOX"))
	if err != nil {
		return err
	}
	defer n.stop()
	s, err := n.sessions(ctx, e)
	if err != nil {
		return err
	}
	defer s.close()
	put := func(row, value string) { t.put(p.name, row, value) }
	if o.logs > 0 {
		err = s.logs(ctx, put, o)
	} else {
		err = s.execs(ctx, put, o)
	}
	if err != nil {
		err = withLog(err, filepath.Join(dir, "log"))
	}
	return err
}

// sessions are the clients for the containers of one node.
type sessions struct {
	*clusterNode
	runtime *cri.RuntimeClient
	// kubelet and apiServer are URLs. direct and admin open sessions there.
	kubelet, apiServer string
	direct, admin      *streams.Client
	http               []*http.Client // in the order of the URLs
}

func (n *clusterNode) sessions(ctx context.Context, e endpoint) (*sessions, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	node, err := n.cluster.admin.Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(node.Status.Addresses, func(a v1.NodeAddress) bool { return a.Type == v1.NodeInternalIP })
	if i < 0 {
		return nil, errors.New("the node has no address")
	}
	runtime, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: e.address})
	if err != nil {
		return nil, err
	}
	insecure := &tls.Config{InsecureSkipVerify: true} // kubelets serve self-signed certificates
	return &sessions{
		clusterNode: n, runtime: runtime, apiServer: config.Host,
		kubelet: fmt.Sprintf("https://%s:%d", node.Status.Addresses[i].Address, node.Status.DaemonEndpoints.KubeletEndpoint.Port),
		direct:  &streams.Client{TLS: insecure}, admin: &streams.Client{TLS: secure},
		http: []*http.Client{{Transport: &http.Transport{TLSClientConfig: insecure}}, {Transport: &http.Transport{TLSClientConfig: secure}}},
	}, nil
}

func (s *sessions) close() {
	for _, c := range s.http {
		c.CloseIdleConnections()
	}
	_ = s.runtime.Close()
}

// with runs a pod whose container executes script, calls do once script has ended, and deletes the
// pod.
func (s *sessions) with(ctx context.Context, script string, do func(pod, container string) error) (err error) {
	pod := s.pod("sessions")
	pod.Spec.Containers[0].Command = []string{"sh", "-c", script + `; touch /done; trap "exit 0" TERM; while :; do sleep 0.1; done`}
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 1000, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", "/done"}}}}
	pods := s.cluster.admin.Pods(benchNamespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		_, gone := s.await(ctx, pod.Name, isGone)
		err = errors.Join(err, gone)
	}()
	if _, err := s.await(ctx, pod.Name, podReady); err != nil {
		return err
	}
	now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, id, _ := strings.Cut(now.Status.ContainerStatuses[0].ContainerID, "://")
	return do(pod.Name, id)
}

// logs reads a log of o.logs bytes, alternately at the kubelet and through the API server.
func (s *sessions) logs(ctx context.Context, put func(row, value string), o options) error {
	line := strings.Repeat("x", 99)
	return s.with(ctx, fmt.Sprintf("yes %s | head -c %d", line, o.logs), func(pod, _ string) error {
		urls := []string{
			s.kubelet + "/containerLogs/" + benchNamespace + "/" + pod + "/main",
			s.apiServer + "/api/v1/namespaces/" + benchNamespace + "/pods/" + pod + "/log",
		}
		rates, peak := make([][]time.Duration, len(urls)), 0.0
		before, err := memory(s.cmd.Process.Pid)
		if err != nil {
			return err
		}
		for range o.runs {
			for i, url := range urls {
				took, anonymous, err := s.read(ctx, s.http[i], url, o.logs)
				if err != nil {
					return err
				}
				rates[i], peak = append(rates[i], took), max(peak, anonymous)
			}
		}
		for i, way := range []string{"direct", "through the API server"} {
			put(fmt.Sprintf("log of %d MB, %s", o.logs/1_000_000, way), fmt.Sprintf("%.0f MB/s", float64(o.logs)/1e6/median(rates[i]).Seconds()))
		}
		put("anonymous memory before; most while reading", fmt.Sprintf("%.1f; %.1f MiB", before["RssAnon"], peak))
		return nil
	})
}

// read reads a log. It also returns the kubelet's highest anonymous memory during the read.
func (s *sessions) read(ctx context.Context, client *http.Client, url string, want int64) (took time.Duration, anonymous float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	ended, watched := make(chan struct{}), make(chan float64, 1)
	go func() {
		most := 0.0
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-ended:
				tick.Stop()
				watched <- most
				return
			case <-tick.C:
				if m, err := memory(s.cmd.Process.Pid); err == nil {
					most = max(most, m["RssAnon"])
				}
			}
		}
	}()
	defer func() {
		close(ended)
		anonymous = <-watched
	}()
	begin := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	first := make([]byte, 100) // contains the error if the response is no log
	k, err := io.ReadFull(response.Body, first)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %s: %s: %w", url, response.Status, first[:k], err)
	}
	rest, err := io.Copy(io.Discard, response.Body)
	got := rest + int64(k)
	if err == nil && got != want {
		err = fmt.Errorf("%s: %s: %d bytes of %d: %s", url, response.Status, got, want, first)
	}
	return time.Since(begin), 0, err
}

// execs runs `true` alternately on the runtime's URL, at the kubelet and through the API server.
func (s *sessions) execs(ctx context.Context, put func(row, value string), o options) error {
	return s.with(ctx, "true", func(pod, container string) error {
		query := url.Values{"command": {"true"}, "output": {"1"}, "stdout": {"1"}, "container": {"main"}}.Encode()
		ways := []func() error{
			func() error {
				answer, err := s.runtime.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: container, Cmd: []string{"true"}, Stdout: true})
				if err != nil {
					return err
				}
				return succeed(new(streams.Client).Exec(ctx, answer.Url, streams.Session{Stdout: io.Discard}))
			},
			func() error {
				return succeed(s.direct.Exec(ctx, s.kubelet+"/exec/"+benchNamespace+"/"+pod+"/main?"+query, streams.Session{Stdout: io.Discard}))
			},
			func() error {
				return succeed(s.admin.Exec(ctx, s.apiServer+"/api/v1/namespaces/"+benchNamespace+"/pods/"+pod+"/exec?"+query, streams.Session{Stdout: io.Discard}))
			},
		}
		took := make([][]time.Duration, len(ways))
		for range o.exec {
			for i, way := range ways {
				begin := time.Now()
				if err := way(); err != nil {
					return err
				}
				took[i] = append(took[i], time.Since(begin))
			}
		}
		own := median(took[0])
		put("exec of true on the runtime's own URL", ms(own))
		put("exec of true directly on the kubelet", times(median(took[1]), own))
		put("exec of true through the API server", times(median(took[2]), own))
		return nil
	})
}

func succeed(code int, err error) error {
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return err
}
