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

// newClient returns the client for all requests. It does not verify certificates, because pods
// are reached by address and rarely have certificates for it. It does not reuse connections: the
// next hook usually goes to another pod.
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

// checkRedirect follows redirects within a host. A redirect to another host ends the request as
// its response, so that pods cannot direct the node's requests.
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

// get sends a GET request. Any response is a success, regardless of its status.
func (r *Runner) get(ctx context.Context, pod *v1.Pod, container *v1.Container, action *v1.HTTPGetAction) (string, error) {
	request, err := r.request(ctx, pod, container, action)
	if err != nil {
		return "", err
	}
	output, err := r.send(request)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return output, err
	}
	// Early kubelets sent https handlers as http, and some handlers depend on it. The
	// Authorization header is not sent without TLS.
	plain := request.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	output, plainErr := r.send(plain)
	if plainErr != nil {
		return "", errors.Join(err, plainErr)
	}
	r.cfg.Metrics.OnHTTPFallback()
	r.cfg.Event(podfacts.Reference(pod), v1.EventTypeWarning, "LifecycleHTTPFallback",
		fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", plain.URL.Host))
	return output, nil
}

func (r *Runner) send(request *http.Request) (string, error) {
	response, err := r.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	// An incomplete body does not change the success. The end of the context does.
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
	request.Host = request.Header.Get("Host") // "" selects the URL's host
	return request, nil
}

// podIP returns the current address of a pod.
func (r *Runner) podIP(ctx context.Context, pod *v1.Pod) (string, error) {
	if r.cfg.PodIPs == nil {
		return "", errors.New("httpGet.host is empty and Config.PodIPs is not set")
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
