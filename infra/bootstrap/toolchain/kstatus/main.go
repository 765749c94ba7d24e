// Judges Kubernetes objects as GitOps tools do: by kstatus, which decides when Flux and Helm go on, and by
// health checks in Lua, as Argo CD runs them. For tests alone.
//
// Reads one JSON document {"objects": [...], "scripts": ["LUA", ...]} and writes a list with
// {"kstatus": {...}, "argocd": {...}} for each object; argocd is left out where its script is empty.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type answer struct {
	Kstatus verdict  `json:"kstatus"`
	Argocd  *verdict `json:"argocd,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked struct {
		Objects []json.RawMessage `json:"objects"`
		Scripts []string          `json:"scripts"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	answers := make([]answer, 0, len(asked.Objects))
	for number, raw := range asked.Objects {
		// As the API's clients decode it: whole numbers as int64.
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return err
		}
		result, err := status.Compute(object)
		if err != nil {
			return fmt.Errorf("kstatus of object %d: %w", number, err)
		}
		given := answer{Kstatus: verdict{result.Status.String(), result.Message}}
		if number < len(asked.Scripts) && asked.Scripts[number] != "" {
			found, err := health(object, asked.Scripts[number])
			if err != nil {
				return fmt.Errorf("health of object %d: %w", number, err)
			}
			given.Argocd = found
		}
		answers = append(answers, given)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// health runs a script as Argo CD's util/lua does: the object is the global obj, of Lua's libraries there
// are package, base and table, and the table that it returns has status and message.
func health(object *unstructured.Unstructured, script string) (*verdict, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		if err := state.CallByParam(
			lua.P{Fn: state.NewFunction(library.open), NRet: 0, Protect: true}, lua.LString(library.name),
		); err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", value(state, object.Object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returns no table")
	}
	return &verdict{table.RawGetString("status").String(), table.RawGetString("message").String()}, nil
}

func value(state *lua.LState, found any) lua.LValue {
	switch typed := found.(type) {
	case bool:
		return lua.LBool(typed)
	case float64:
		return lua.LNumber(typed)
	case int64:
		return lua.LNumber(typed)
	case string:
		return lua.LString(typed)
	case []any:
		table := state.CreateTable(len(typed), 0)
		for _, item := range typed {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(typed))
		for key, item := range typed {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}
