// What actions/github-script does: the script is the body of an async function that is given these four.
const core = require('@actions/core');
const { context, getOctokit } = require('@actions/github');

const body = Object.getPrototypeOf(async () => {}).constructor;
const script = new body('require', 'github', 'context', 'core', core.getInput('script', { required: true }));
script(require, getOctokit(core.getInput('github-token', { required: true })), context, core).then(
  (result) => core.setOutput('result', result === undefined ? '' : JSON.stringify(result)),
  (error) => core.setFailed(`Unhandled error: ${error}`),
);
