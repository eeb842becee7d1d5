package tracing_test

import (
	"fmt"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/tracing"
)

// The calls to a runtime become spans, children of whatever span their context has.
func Example() {
	t, err := tracing.New(tracing.Config{SamplingRatePerMillion: 1000, Service: "agent"})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := cri.ClientConfig{Span: t.CallSpan}
	fmt.Println(cfg.Span != nil)
	// Output: true
}
