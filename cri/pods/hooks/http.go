package hooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

const maxRedirects = 10

// newClient returns the client of all requests. It asks whoever answers, without
// looking at certificates: a pod is reached by its address, for which it hardly
// ever has one. Connections are not kept, for the next hook of a container is its
// last, or another pod's.
func newClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       dial,
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		},
		CheckRedirect: checkRedirect,
	}
}

// checkRedirect follows redirects within a host. One that leads elsewhere is the
// response: the pod must not make the node send requests where it likes.
func checkRedirect(to *http.Request, via []*http.Request) error {
	switch {
	case to.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	default:
		return nil
	}
}

// get sends a GET request. Any response is a success, whatever its status.
func (r *Runner) get(ctx context.Context, pod *v1.Pod, container *v1.Container, action *v1.HTTPGetAction) (string, error) {
	request, err := r.request(ctx, pod, container, action)
	if err != nil {
		return "", err
	}
	output, err := r.send(request)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return output, err
	}
	// Before certificates were a matter, https was carried out as http, and
	// handlers were written that only work so. What was meant for TLS alone is
	// not sent in the open.
	plain := request.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	output, plainErr := r.send(plain)
	if plainErr != nil {
		return "", errors.Join(err, plainErr)
	}
	r.cfg.Metrics.OnHTTPFallback()
	r.cfg.Event(podfacts.Reference(pod), v1.EventTypeWarning, "LifecycleHTTPFallback",
		"request to HTTPS lifecycle hook of container "+container.Name+" got HTTP response, retry with HTTP succeeded")
	return output, nil
}

// send returns the beginning of the response.
func (r *Runner) send(request *http.Request) (string, error) {
	response, err := r.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	// A body that breaks off does not undo the response, an end of the wait does.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if request.Context().Err() != nil {
		return string(body), err
	}
	return string(body), nil
}

func (r *Runner) request(ctx context.Context, pod *v1.Pod, container *v1.Container, action *v1.HTTPGetAction) (*http.Request, error) {
	port, err := podfacts.Port(container, action.Port)
	if err != nil {
		return nil, err
	}
	host := action.Host
	if host == "" {
		if host, err = r.podIP(ctx, pod); err != nil {
			return nil, err
		}
	}
	target := podfacts.HTTPTarget(action, host, port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header = podfacts.HTTPHeader(action, "kube-lifecycle/"+version)
	request.Host = request.Header.Get("Host") // "" for that of the URL
	return request, nil
}

// podIP is the address of a pod at this moment.
func (r *Runner) podIP(ctx context.Context, pod *v1.Pod) (string, error) {
	if r.cfg.PodIPs == nil {
		return "", errors.New("it names no host, and Config.PodIPs is not set")
	}
	ips, err := r.cfg.PodIPs(ctx, pod)
	switch {
	case err != nil:
		return "", fmt.Errorf("the pod's address: %w", err)
	case len(ips) == 0:
		return "", errors.New("the pod has no address")
	default:
		return ips[0], nil
	}
}
