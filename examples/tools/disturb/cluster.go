package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/examples/tools/internal/control"
)

const (
	pollPeriod     = 50 * time.Millisecond
	requestTimeout = 2 * time.Second
	stepTimeout    = 2 * time.Minute
	buildTimeout   = 30 * time.Minute
)

// cluster is the control plane and the runtimes of the testbed.
type cluster struct {
	client                 *http.Client
	url                    string
	planeSocket, crisocket string
}

func newCluster() (*cluster, error) {
	folder, socket := os.Getenv("PODWRIGHT_CONTROLPLANE"), os.Getenv("PODWRIGHT_CTL")
	if folder == "" || socket == "" {
		return nil, errors.New("no control plane; start with: go run ./examples/tools/testbed -controlplane -- go run ./examples/tools/disturb")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	// With HTTP/1.1 the end of the API server closes each connection.
	transport := &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: 16}
	return &cluster{
		client: &http.Client{Transport: transport}, url: config.Host,
		planeSocket: filepath.Join(folder, "ctl.sock"), crisocket: socket,
	}, nil
}

// plane makes a request to the control endpoint of the control plane.
func (c *cluster) plane(ctx context.Context, method, path string) ([]byte, error) {
	body, err := control.Do(ctx, method, c.planeSocket, path, buildTimeout)
	if err != nil {
		err = fmt.Errorf("control plane: %s: %w", path, err)
	}
	return body, err
}

// runtimes makes a request to the control endpoint of the testbed.
func (c *cluster) runtimes(ctx context.Context, path string) error {
	_, err := control.Do(ctx, http.MethodPost, c.crisocket, path, stepTimeout)
	if err != nil {
		err = fmt.Errorf("testbed: %s: %w", path, err)
	}
	return err
}

// statusError is the code of a response other than 2xx.
type statusError struct {
	code int
	text string
}

func (e statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.text) }

func isStatus(err error, code int) bool {
	var status statusError
	return errors.As(err, &status) && status.code == code
}

// do makes one request to the API server. An object in YAML may be the body.
func (c *cluster) do(ctx context.Context, method, path, object string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var content io.Reader
	if object != "" {
		text, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = statusError{response.StatusCode, string(body)}
	}
	return body, err
}

// get reads an object. The body is empty if the object is absent.
func (c *cluster) get(ctx context.Context, path string) ([]byte, error) {
	body, err := c.do(ctx, http.MethodGet, path, "")
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	return body, err
}

func (c *cluster) create(ctx context.Context, path, object string) error {
	return until(ctx, "create in "+path, func() error {
		_, err := c.do(ctx, http.MethodPost, path, object)
		if isStatus(err, http.StatusConflict) {
			return nil
		}
		return err
	})
}

func (c *cluster) remove(ctx context.Context, path string) error {
	return until(ctx, "delete "+path, func() error {
		_, err := c.do(ctx, http.MethodDelete, path, "")
		if isStatus(err, http.StatusNotFound) {
			return nil
		}
		return err
	})
}

// until retries f until it succeeds, for at most stepTimeout.
func until(ctx context.Context, goal string, f func() error) error {
	for begin := time.Now(); ; {
		err := f()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || time.Since(begin) > stepTimeout:
			return fmt.Errorf("%s: %w", goal, err)
		}
		if err := sleep(ctx, pollPeriod); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
