package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/podwright/podwright/examples/kubelet/server/auth"
)

// reviews allows one user to read metrics. In an agent, apiserver.Client calls the API server.
type reviews struct{}

func (reviews) ReviewToken(_ context.Context, r *authv1.TokenReview) (*authv1.TokenReview, error) {
	r.Status.Authenticated = r.Spec.Token == "prometheus's"
	r.Status.User = authv1.UserInfo{Username: "system:serviceaccount:monitoring:prometheus"}
	return r, nil
}

func (reviews) ReviewAccess(_ context.Context, r *authzv1.SubjectAccessReview) (*authzv1.SubjectAccessReview, error) {
	r.Status.Allowed = r.Spec.ResourceAttributes.Verb == "get" && r.Spec.ResourceAttributes.Subresource == "metrics"
	return r, nil
}

// The server serves authorized requests only.
func Example() {
	a, err := auth.New(auth.Config{NodeName: "worker", Tokens: auth.Tokens{Enabled: true}, Mode: auth.Webhook, Reviews: reviews{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		u, _ := auth.UserFrom(r.Context())
		fmt.Println(r.URL.Path, "for", u.Username)
	})))
	defer server.Close()
	for _, path := range []string{"/metrics", "/exec/default/web/app"} {
		for _, token := range []string{"", "prometheus's"} {
			r, _ := http.NewRequest(http.MethodGet, server.URL+path, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				fmt.Println(err)
				return
			}
			_ = resp.Body.Close() // only the status matters
			fmt.Println(path, resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// /metrics 401
	// /metrics for system:serviceaccount:monitoring:prometheus
	// /metrics 200
	// /exec/default/web/app 401
	// /exec/default/web/app 403
}
