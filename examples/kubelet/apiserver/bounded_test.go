package apiserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type replies struct {
	code int
	kind string
	body io.Reader
}

func (r replies) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.code, Header: http.Header{"Content-Type": {r.kind}}, Body: io.NopCloser(r.body)}, nil
}

// forever repeats a text, which is shorter than a buffer.
type forever string

func (f forever) Read(p []byte) (int, error) {
	n := copy(p, f)
	for n >= len(f) && n+len(f) <= len(p) {
		n += copy(p[n:len(p)/len(f)*len(f)], p[:n])
	}
	return n, nil
}

// A response ends at its limit, a watch at an event above the limit, and only there.
func TestBoundedResponses(t *testing.T) {
	const json, protobuf = "application/json", "application/vnd.kubernetes.protobuf;stream=watch"
	const one, eight = "\x00\x00\x00\x01x", "\x00\x80\x00\x00"
	frames := "\x00\x00\x10\x00" + strings.Repeat("x", 4096) + one + "\x00\x00\x00\x00"
	event := `{"type":"ADDED","object":{"a":["}","\\"]}}` + "\n"
	long := `{"a":"` + strings.Repeat("}", 12<<20) + `"}`
	for name, c := range map[string]struct {
		url string
		replies
		take int64 // read at most
		err  string
	}{
		"endless list":                {"/api/v1/pods", replies{200, json, forever("x")}, 64 << 20, "response exceeds the limit of 33554432 bytes"},
		"endless error of a list":     {"/api/v1/pods", replies{500, json, forever("x")}, 64 << 20, "response exceeds the limit of 33554432 bytes"},
		"endless error of a watch":    {"/api/v1/pods?watch=true", replies{403, json, forever("x")}, 64 << 20, "response exceeds the limit of 33554432 bytes"},
		"the largest list":            {"/api/v1/pods", replies{200, json, io.LimitReader(forever("x"), maxResponse)}, 64 << 20, ""},
		"many events":                 {"/api/v1/pods?watch=true", replies{200, json, forever(event)}, 40 << 20, ""},
		"two long events":             {"/api/v1/pods?watch=true", replies{200, json, strings.NewReader(long + long)}, 40 << 20, ""},
		"many events in protobuf":     {"/api/v1/pods?watch=true", replies{200, protobuf, forever(frames)}, 40 << 20, ""},
		"long events in protobuf":     {"/api/v1/pods?watch=true", replies{200, protobuf, strings.NewReader(strings.Repeat(eight+strings.Repeat("x", 8<<20), 5))}, 40 << 20, ""},
		"length of a long event":      {"/api/v1/pods?watch=true", replies{200, protobuf, io.MultiReader(strings.NewReader(one+"\xff"), strings.NewReader("\xff\xff\xff"))}, 40 << 20, "watch event exceeds the limit of 16777216 bytes"},
		"endless event":               {"/api/v1/pods?watch=true", replies{200, json, forever(`{"a":` + "\n")}, 40 << 20, "watch event exceeds the limit of 16777216 bytes"},
		"endless text in an event":    {"/api/v1/pods?watch=true", replies{200, json, io.MultiReader(strings.NewReader(`{"a":"`), forever(`}`))}, 40 << 20, "watch event exceeds the limit of 16777216 bytes"},
		"endless space before events": {"/api/v1/pods?watch=true", replies{200, json, forever(" ")}, 40 << 20, "watch event exceeds the limit of 16777216 bytes"},
	} {
		var together budget
		request, err := http.NewRequest(http.MethodGet, "http://server"+c.url, nil)
		require.NoError(t, err)
		response, err := bounded{c.replies, &together}.RoundTrip(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, c.take))
		require.NoError(t, response.Body.Close())
		require.Zero(t, together.used, name)
		if c.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, c.err, name)
	}
}

// Responses in progress are bounded together, but small ones work beside large ones.
func TestBoundedTogether(t *testing.T) {
	var together budget
	get := func(n int64) (io.ReadCloser, error) {
		request, err := http.NewRequest(http.MethodGet, "http://server/api/v1/pods", nil)
		require.NoError(t, err)
		response, err := bounded{replies{200, "", io.LimitReader(forever("x"), n)}, &together}.RoundTrip(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		return response.Body, err
	}
	first, err := get(20 << 20)
	require.NoError(t, err)
	second, err := get(20 << 20)
	require.EqualError(t, err, "responses in progress exceed the limit of 33554432 bytes together")
	for range 100 {
		_, err = get(uncounted)
		require.NoError(t, err)
	}
	require.NoError(t, second.Close())
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "a second time")
	_, err = get(maxResponse)
	require.NoError(t, err)
}
