package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// headerFlag is a flag of pairs "name:value,name:value" that may be given several
// times.
type headerFlag map[string][]string

// String shows the names only: values are often secrets.
func (h headerFlag) String() string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name+":...")
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// Set adds pairs.
func (h headerFlag) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return errors.New("each pair must be name:value")
		}
		h[name] = append(h[name], strings.TrimSpace(value))
	}
	return nil
}

// setManifestURL takes over where a web server has static pods.
func (c *Config) setManifestURL(file *kubeletv1beta1.KubeletConfiguration) error {
	c.ManifestURL = file.StaticPodURL
	c.HTTPCheckFrequency = durationOr(file.HTTPCheckFrequency, 20*time.Second)
	if len(file.StaticPodURLHeader) > 0 {
		c.ManifestURLHeader = http.Header{}
	}
	for name, values := range file.StaticPodURLHeader {
		for _, value := range values {
			c.ManifestURLHeader.Add(name, value)
		}
	}
	var errs []error
	if c.HTTPCheckFrequency <= 0 {
		errs = append(errs, fmt.Errorf("httpCheckFrequency: %s is not positive", c.HTTPCheckFrequency))
	}
	if c.ManifestURL != "" {
		// The error of url.Parse repeats the address with its password.
		where, err := url.Parse(c.ManifestURL)
		switch {
		case err != nil:
			errs = append(errs, errors.New("staticPodURL (--manifest-url): is not a URL"))
		case (where.Scheme != "http" && where.Scheme != "https") || where.Host == "":
			errs = append(errs, fmt.Errorf("staticPodURL (--manifest-url): %q is no http or https address", where.Redacted()))
		}
	}
	return errors.Join(errs...)
}
